/* NULL, misaligned, overlapping and overflowing pointers, in every call; outputs stay as they were. */
#include "check.h"

static mortise_handle handle;
static mortise_node_ref refs[2];

/* A pointer into `storage` that no type of the header with a larger alignment than 1 accepts. */
#define MISALIGNED(type, storage) ((type *)(void *)((unsigned char *)(storage) + 1))

static uint64_t storage[64];

static void null_pointers(void) {
    mortise_error err = new_error();
    mortise_config config = new_config();
    mortise_handle made = 42;
    EXPECT(mortise_cluster_new(NULL, &made, &err), MORTISE_ERR_NULL_POINTER, "config");
    EXPECT(mortise_cluster_new(&config, NULL, &err), MORTISE_ERR_NULL_POINTER, "out_handle");
    config.strategy_length = 3;
    EXPECT(mortise_cluster_new(&config, &made, &err), MORTISE_ERR_NULL_POINTER, "config.strategy");
    config = new_config();
    config.mix_mode = MORTISE_MIX_FIXED;
    config.mix_kind_count = 1;
    config.mix_kind_stride = sizeof(mortise_mix_kind);
    EXPECT(mortise_cluster_new(&config, &made, &err), MORTISE_ERR_NULL_POINTER, "config.mix_kinds");
    CHECK(made == 42);

    uint32_t model = 42;
    EXPECT(mortise_model_intern(handle, NULL, 4, &model, &err), MORTISE_ERR_NULL_POINTER, "name");
    EXPECT(mortise_model_intern(handle, "T4", 2, NULL, &err), MORTISE_ERR_NULL_POINTER, "out_model_id");

    mortise_sync_result result = new_sync_result();
    EXPECT(mortise_sync(handle, NULL, NULL, &result, &err), MORTISE_ERR_NULL_POINTER, "request");
    mortise_sync_request sync = new_sync(NULL, 1, NULL, 0);
    EXPECT(mortise_sync(handle, &sync, NULL, &result, &err), MORTISE_ERR_NULL_POINTER, "request.upserts");
    sync = new_sync(NULL, 0, NULL, 1);
    EXPECT(mortise_sync(handle, &sync, NULL, &result, &err), MORTISE_ERR_NULL_POINTER, "request.pods");
    sync = new_sync(NULL, 0, NULL, 0);
    sync.removal_count = 1;
    EXPECT(mortise_sync(handle, &sync, NULL, &result, &err), MORTISE_ERR_NULL_POINTER, "request.removals");
    sync = new_sync(NULL, 0, NULL, 0);
    EXPECT(mortise_sync(handle, &sync, NULL, NULL, &err), MORTISE_ERR_NULL_POINTER, "out_result");

    mortise_decision decision = new_decision();
    EXPECT(mortise_score(handle, NULL, NULL, 0, &decision, &err), MORTISE_ERR_NULL_POINTER, "request");
    mortise_pod_request pod = new_pod(1, 1, 1000);
    mortise_score_request score = new_score(NULL, refs, 2);
    EXPECT(mortise_score(handle, &score, NULL, 0, &decision, &err), MORTISE_ERR_NULL_POINTER, "request.pod");
    score = new_score(&pod, NULL, 2);
    EXPECT(mortise_score(handle, &score, NULL, 0, &decision, &err), MORTISE_ERR_NULL_POINTER,
           "request.candidates");
    score = new_score(&pod, refs, 2);
    EXPECT(mortise_score(handle, &score, NULL, 0, NULL, &err), MORTISE_ERR_NULL_POINTER, "out_decision");

    size_t count = 42;
    EXPECT(mortise_reasons(handle, NULL, 0, NULL, 0, &count, &err), MORTISE_ERR_NULL_POINTER, "pod");
    EXPECT(mortise_reasons(handle, &pod, 0, NULL, 0, NULL, &err), MORTISE_ERR_NULL_POINTER,
           "out_reason_count");
    EXPECT(mortise_reasons(handle, &pod, sizeof(mortise_node_reason), NULL, 4, &count, &err),
           MORTISE_ERR_NULL_POINTER, "out_reasons");
    mortise_explanation explanation = new_explanation();
    EXPECT(mortise_explain(handle, NULL, NULL, 0, &explanation, &err), MORTISE_ERR_NULL_POINTER, "pod");
    EXPECT(mortise_explain(handle, &pod, NULL, 1, &explanation, &err), MORTISE_ERR_NULL_POINTER, "candidates");
    EXPECT(mortise_explain(handle, &pod, refs, 2, NULL, &err), MORTISE_ERR_NULL_POINTER, "out_explanation");
    EXPECT(mortise_fragmentation(handle, NULL, &err), MORTISE_ERR_NULL_POINTER, "out_report");
    EXPECT(mortise_stats(handle, NULL, &err), MORTISE_ERR_NULL_POINTER, "out_report");
    uint64_t half = 42;
    EXPECT(mortise_state_digest(handle, NULL, &half, &err), MORTISE_ERR_NULL_POINTER, "out_high");
    EXPECT(mortise_state_digest(handle, &half, NULL, &err), MORTISE_ERR_NULL_POINTER, "out_low");
    EXPECT(mortise_state_export(handle, NULL, 9, &count, &err), MORTISE_ERR_NULL_POINTER, "out_bytes");
    EXPECT(mortise_state_export(handle, NULL, 0, NULL, &err), MORTISE_ERR_NULL_POINTER, "out_length");
    EXPECT(mortise_learned_export(handle, NULL, 9, &count, &err), MORTISE_ERR_NULL_POINTER, "out_bytes");
    EXPECT(mortise_learned_export(handle, NULL, 0, NULL, &err), MORTISE_ERR_NULL_POINTER, "out_length");
    EXPECT(mortise_state_import(handle, NULL, 9, &err), MORTISE_ERR_NULL_POINTER, "bytes");
    EXPECT(mortise_learned_import(handle, NULL, 0, &err), MORTISE_ERR_NULL_POINTER, "bytes");
    CHECK(model == 42 && count == 42 && half == 42);
}

static void misaligned_pointers(void) {
    mortise_error err = new_error();
    mortise_config config = new_config();
    mortise_handle made = 42;
    EXPECT(mortise_handshake(MISALIGNED(mortise_handshake_info, storage), &err), MORTISE_ERR_MISALIGNED, "info");
    EXPECT(mortise_cluster_new(MISALIGNED(mortise_config, storage), &made, &err), MORTISE_ERR_MISALIGNED,
           "config");
    EXPECT(mortise_cluster_new(&config, MISALIGNED(mortise_handle, storage), &err), MORTISE_ERR_MISALIGNED,
           "out_handle");
    EXPECT(mortise_model_intern(handle, "T4", 2, MISALIGNED(uint32_t, storage), &err), MORTISE_ERR_MISALIGNED,
           "out_model_id");
    mortise_sync_result result = new_sync_result();
    EXPECT(mortise_sync(handle, MISALIGNED(mortise_sync_request, storage), NULL, &result, &err),
           MORTISE_ERR_MISALIGNED, "request");
    mortise_sync_request sync = new_sync(MISALIGNED(mortise_node_delta, storage), 1, NULL, 0);
    EXPECT(mortise_sync(handle, &sync, NULL, &result, &err), MORTISE_ERR_MISALIGNED, "request.upserts");
    sync = new_sync(NULL, 0, MISALIGNED(mortise_pod_record, storage), 1);
    EXPECT(mortise_sync(handle, &sync, NULL, &result, &err), MORTISE_ERR_MISALIGNED, "request.pods");
    sync = new_sync(NULL, 0, NULL, 0);
    sync.removals = MISALIGNED(mortise_node_ref, storage);
    sync.removal_count = 1;
    EXPECT(mortise_sync(handle, &sync, NULL, &result, &err), MORTISE_ERR_MISALIGNED, "request.removals");
    sync = new_sync(NULL, 0, NULL, 0);
    sync.arrival = MISALIGNED(mortise_pod_request, storage);
    EXPECT(mortise_sync(handle, &sync, NULL, &result, &err), MORTISE_ERR_MISALIGNED, "request.arrival");
    mortise_node_delta node = new_node(9, 0);
    sync = new_sync(&node, 1, NULL, 0);
    EXPECT(mortise_sync(handle, &sync, MISALIGNED(mortise_node_ref, storage), &result, &err),
           MORTISE_ERR_MISALIGNED, "out_refs");

    mortise_pod_request pod = new_pod(1, 1, 1000);
    mortise_decision decision = new_decision();
    mortise_score_request score = new_score(&pod, MISALIGNED(mortise_node_ref, storage), 1);
    EXPECT(mortise_score(handle, &score, NULL, 0, &decision, &err), MORTISE_ERR_MISALIGNED,
           "request.candidates");
    score = new_score(&pod, refs, 2);
    EXPECT(mortise_score(handle, &score, MISALIGNED(mortise_node_score, storage), 2, &decision, &err),
           MORTISE_ERR_MISALIGNED, "out_scores");
    EXPECT(mortise_score(handle, &score, NULL, 0, MISALIGNED(mortise_decision, storage), &err),
           MORTISE_ERR_MISALIGNED, "out_decision");
    size_t count = 42;
    EXPECT(mortise_reasons(handle, MISALIGNED(mortise_pod_request, storage), 0, NULL, 0, &count, &err),
           MORTISE_ERR_MISALIGNED, "pod");
    EXPECT(mortise_stats(handle, MISALIGNED(mortise_stats_report, storage), &err), MORTISE_ERR_MISALIGNED,
           "out_report");
    CHECK(mortise_stats(handle, NULL, MISALIGNED(mortise_error, storage)) == MORTISE_ERR_MISALIGNED);
    CHECK(made == 42);
}

static void overlaps(void) {
    mortise_error err = new_error();
    mortise_sync_result result = new_sync_result();
    mortise_node_delta nodes[2] = {new_node(1, 8), new_node(2, 8)};
    nodes[0].model_id = nodes[1].model_id = 0;
    mortise_sync_request sync = new_sync(nodes, 2, NULL, 0);
    EXPECT(mortise_sync(handle, &sync, &nodes[1].node_ref, &result, &err), MORTISE_ERR_OVERLAP,
           "request.upserts");
    mortise_node_ref removals[2] = {refs[0], refs[1]};
    sync = new_sync(nodes, 2, NULL, 0);
    sync.removals = removals;
    sync.removal_count = 2;
    EXPECT(mortise_sync(handle, &sync, removals, &result, &err), MORTISE_ERR_OVERLAP, "request.removals");
    CHECK(removals[0] == refs[0] && removals[1] == refs[1]);
    uint64_t half = 42;
    EXPECT(mortise_state_digest(handle, &half, &half, &err), MORTISE_ERR_OVERLAP, "out_low");
    CHECK(half == 42);
    /* Outputs in the caller's mortise_error. */
    EXPECT(mortise_state_digest(handle, &half, &err.required, &err), MORTISE_ERR_OVERLAP, "err");

    mortise_pod_request pod = new_pod(1, 1, 1000);
    mortise_score_request score = new_score(&pod, refs, 2);
    union {
        mortise_node_score scores[4];
        mortise_decision decision;
    } both;
    memset(&both, 0, sizeof both);
    both.decision.struct_size = sizeof both.decision;
    EXPECT(mortise_score(handle, &score, both.scores, 4, &both.decision, &err), MORTISE_ERR_OVERLAP,
           "out_scores");
    CHECK(both.decision.feasible_count == 0 && both.decision.node_ref == 0);

    /* Inputs may share memory: one pod record of two nodes would not be valid, one request is. */
    mortise_node_ref twice[2] = {refs[0], refs[0]};
    mortise_decision decision = new_decision();
    score = new_score(&pod, twice, 2);
    OK(mortise_score(handle, &score, NULL, 0, &decision, &err));
    CHECK(decision.feasible_count == 2 && decision.candidate_index == 0);
}

static void lengths_beyond_memory(void) {
    mortise_error err = new_error();
    mortise_pod_request pod = new_pod(1, 1, 1000);
    mortise_score_request score = new_score(&pod, refs, 2);
    mortise_decision decision = new_decision();
    mortise_node_score scores[2];
    EXPECT(mortise_score(handle, &score, scores, SIZE_MAX, &decision, &err), MORTISE_ERR_BAD_LENGTH, "out_scores");
    EXPECT(mortise_score(handle, &score, scores, SIZE_MAX / sizeof *scores, &decision, &err),
           MORTISE_ERR_BAD_LENGTH, "out_scores");
    size_t length = 42;
    uint8_t byte = 0;
    EXPECT(mortise_state_export(handle, &byte, SIZE_MAX, &length, &err), MORTISE_ERR_BAD_LENGTH, "out_bytes");
    CHECK(length == 42 && byte == 0);
    EXPECT(mortise_state_import(handle, &byte, SIZE_MAX, &err), MORTISE_ERR_LIMIT_EXCEEDED, "bytes");
    uint32_t model = 42;
    EXPECT(mortise_model_intern(handle, "T4", SIZE_MAX, &model, &err), MORTISE_ERR_LIMIT_EXCEEDED, "name");
    score.candidate_count = SIZE_MAX;
    EXPECT(mortise_score(handle, &score, NULL, 0, &decision, &err), MORTISE_ERR_LIMIT_EXCEEDED, "candidates");
    score.candidate_count = MORTISE_MAX_NODES + 1;
    EXPECT(mortise_score(handle, &score, NULL, 0, &decision, &err), MORTISE_ERR_LIMIT_EXCEEDED, "candidates");
    mortise_sync_result result = new_sync_result();
    mortise_node_delta node = new_node(9, 0);
    mortise_sync_request sync = new_sync(&node, MORTISE_MAX_NODES + 1, NULL, 0);
    EXPECT(mortise_sync(handle, &sync, NULL, &result, &err), MORTISE_ERR_LIMIT_EXCEEDED, "upserts");
    mortise_pod_record record = new_pod_record(1, 0, 0, 0);
    sync = new_sync(&node, 1, &record, MORTISE_MAX_PODS_PER_SYNC + 1);
    EXPECT(mortise_sync(handle, &sync, NULL, &result, &err), MORTISE_ERR_LIMIT_EXCEEDED, "pods");
    sync = new_sync(&node, 1, NULL, 0);
    sync.removals = refs;
    sync.removal_count = MORTISE_MAX_NODES + 1;
    EXPECT(mortise_sync(handle, &sync, NULL, &result, &err), MORTISE_ERR_LIMIT_EXCEEDED, "removals");
}

void check_pointers(void) {
    handle = new_cluster(0, 2, refs);
    uint64_t before = digest_of(handle);
    null_pointers();
    misaligned_pointers();
    overlaps();
    lengths_beyond_memory();
    CHECK(digest_of(handle) == before);
    free_cluster(handle);
}
