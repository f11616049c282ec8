/* A cluster from its first node to its end, as a scheduler drives it. */
#include <stdlib.h>
#include <string.h>

#include "check.h"

enum { NODES = 4 };

static void place_pods_until_full(void) {
    mortise_error err = new_error();
    mortise_node_ref refs[NODES];
    mortise_handle handle = new_cluster(0, NODES, refs);
    for (size_t index = 0; index < NODES; index++)
        CHECK(refs[index] != MORTISE_NODE_REF_NONE);

    mortise_pod_record pods[NODES][8];
    size_t pod_counts[NODES] = {0};
    uint16_t used[NODES] = {0};
    for (uint64_t uid = 1; uid <= NODES * 8 + 1; uid++) {
        mortise_pod_request pod = new_pod(uid, 1, 1000);
        mortise_score_request request = new_score(&pod, refs, NODES);
        request.tie_salt = uid;
        mortise_node_score scores[NODES];
        mortise_decision decision = new_decision();
        OK(mortise_score(handle, &request, scores, NODES, &decision, &err));
        if (uid == NODES * 8 + 1) {
            CHECK(decision.node_ref == MORTISE_NODE_REF_NONE && decision.feasible_count == 0);
            CHECK(decision.candidate_index == MORTISE_CANDIDATE_NONE && decision.devices == 0);
            CHECK(decision.score == INT64_MIN);
            CHECK(scores[0].score == INT64_MIN && scores[0].reason == MORTISE_REASON_INSUFFICIENT_GPU);
            break;
        }
        uint32_t at = decision.candidate_index;
        CHECK(at < NODES && decision.node_ref == refs[at]);
        if (at >= NODES)
            break;
        CHECK(scores[at].score == decision.score && scores[at].devices == decision.devices);
        for (size_t index = 0; index < NODES; index++) {
            CHECK(scores[index].node_ref == refs[index] && scores[index].score <= decision.score);
        }
        /* One device, and a free one. */
        CHECK(decision.devices != 0 && (decision.devices & (decision.devices - 1)) == 0);
        CHECK((used[at] & decision.devices) == 0);
        used[at] |= decision.devices;
        pods[at][pod_counts[at]++] = new_pod_record(uid, 1, 1000, decision.devices);

        mortise_node_delta node = new_node(at + 1, 8);
        node.node_ref = refs[at];
        node.model_id = 0;
        node.generation = (int64_t)uid;
        node.pod_count = (uint32_t)pod_counts[at];
        node.cpu_free_milli -= 4000 * (int64_t)pod_counts[at];
        node.memory_free_bytes -= GIB * (int64_t)pod_counts[at];
        mortise_sync_request sync = new_sync(&node, 1, pods[at], pod_counts[at]);
        sync.arrival = &pod;
        mortise_sync_result result = new_sync_result();
        OK(mortise_sync(handle, &sync, NULL, &result, &err));
        CHECK(result.changed_count == 1 && result.added_count == 0 && result.arrival_counted == 1);
        CHECK(result.pod_count == uid && result.overcommitted_milli == 0);
    }
    mortise_stats_report stats;
    memset(&stats, 0, sizeof stats);
    stats.struct_size = sizeof stats;
    OK(mortise_stats(handle, &stats, &err));
    CHECK(stats.node_count == NODES && stats.decisions == NODES * 8 + 1 && stats.arrivals == NODES * 8);
    CHECK(stats.mix_kind_count == 1 && stats.struct_size == sizeof stats);

    /* The same nodes and pods at once, in another cluster: the same state. */
    mortise_node_delta nodes[NODES];
    mortise_pod_record all[NODES * 8];
    uint32_t filled = 0;
    for (size_t index = 0; index < NODES; index++) {
        nodes[index] = new_node(index + 1, 8);
        nodes[index].model_id = 0;
        nodes[index].first_pod = filled;
        nodes[index].pod_count = (uint32_t)pod_counts[index];
        nodes[index].cpu_free_milli -= 4000 * (int64_t)pod_counts[index];
        nodes[index].memory_free_bytes -= GIB * (int64_t)pod_counts[index];
        memcpy(&all[filled], pods[index], pod_counts[index] * sizeof all[0]);
        filled += (uint32_t)pod_counts[index];
    }
    mortise_node_ref other_refs[NODES];
    mortise_handle other = new_cluster(0, 0, NULL);
    mortise_sync_request full = new_sync(nodes, NODES, all, filled);
    full.flags = MORTISE_SYNC_FULL;
    mortise_sync_result result = new_sync_result();
    OK(mortise_sync(other, &full, other_refs, &result, &err));
    CHECK(digest_of(other) == digest_of(handle));
    OK(mortise_learn_from_pods(other, &err));
    OK(mortise_stats(other, &stats, &err));
    CHECK(stats.arrivals == NODES * 8);

    /* Full sync of one node drops the others. */
    full = new_sync(nodes, 1, all, pod_counts[0]);
    full.flags = MORTISE_SYNC_FULL;
    OK(mortise_sync(other, &full, other_refs, &result, &err));
    CHECK(result.node_count == 1 && result.removed_count == NODES - 1);
    CHECK(digest_of(other) != digest_of(handle));
    free_cluster(other);
    free_cluster(handle);
}

static void shares_and_reasons(void) {
    mortise_error err = new_error();
    mortise_handle handle = new_cluster(0, 0, NULL);
    mortise_node_delta nodes[4] = {new_node(10, 2), new_node(11, 2), new_node(12, 0), new_node(13, 2)};
    nodes[0].model_id = nodes[1].model_id = nodes[3].model_id = 0;
    nodes[0].pod_count = 2; /* both cards half used */
    nodes[1].flags = 0;     /* whole cards only */
    nodes[3].cpu_free_milli = -1;
    mortise_pod_record pods[2] = {new_pod_record(1, 1, 500, 1), new_pod_record(2, 1, 500, 2)};
    mortise_node_ref refs[4];
    mortise_sync_request sync = new_sync(nodes, 4, pods, 2);
    mortise_sync_result result = new_sync_result();
    OK(mortise_sync(handle, &sync, refs, &result, &err));

    mortise_pod_request pod = new_pod(9, 1, 600);
    size_t count = 0;
    OK(mortise_reasons(handle, &pod, 0, NULL, 0, &count, &err));
    CHECK(count == 4);
    mortise_node_reason reasons[4];
    OK(mortise_reasons(handle, &pod, sizeof reasons[0], reasons, 4, &count, &err));
    for (size_t index = 0; index < count; index++) {
        const mortise_node_reason *reason = &reasons[index];
        if (reason->node_ref == refs[0]) {
            CHECK(reason->reason == MORTISE_REASON_NO_CARD_FITS_SHARE);
            CHECK(reason->need == 600 && reason->have == 1000 && reason->largest_free == 500);
        } else if (reason->node_ref == refs[1]) {
            CHECK(reason->reason == MORTISE_REASON_SHARES_NOT_OFFERED);
        } else if (reason->node_ref == refs[2]) {
            CHECK(reason->reason == MORTISE_REASON_NO_GPU && reason->have == 0);
        } else {
            CHECK(reason->node_ref == refs[3] && reason->reason == MORTISE_REASON_INSUFFICIENT_CPU);
            CHECK(reason->need == 4000 && reason->have == -1);
        }
    }
    count = 77;
    EXPECT(mortise_reasons(handle, &pod, sizeof reasons[0], reasons, 3, &count, &err),
           MORTISE_ERR_BUFFER_TOO_SMALL, "out_reasons");
    CHECK(err.required == 4 && count == 77);

    /* The same in figures and words; of all nodes, of some, and of nodes that are not there. */
    mortise_explanation found = new_explanation();
    OK(mortise_explain(handle, &pod, NULL, 0, &found, &err));
    CHECK(found.node_count == 4 && found.feasible_count == 0 && found.gpu_node_count == 2);
    CHECK(found.free_node_count == 2 && found.free_cards == 2 && found.free_milli == 3000);
    CHECK(found.largest_node == refs[3] && found.largest_hole == 1000 && found.reserved == 0);
    CHECK(found.reason_counts[MORTISE_REASON_NO_GPU] == 1 && found.reason_counts[MORTISE_REASON_NONE] == 0);
    CHECK(strcmp(found.text, "3 GPUs free on 2 nodes, largest hole 100 % of a card") == 0);
    pod = new_pod(9, 2, 1000);
    OK(mortise_explain(handle, &pod, refs, 2, &found, &err));
    CHECK(found.node_count == 2 && found.feasible_count == 1 && found.largest_node == refs[1]);
    CHECK(strcmp(found.text, "2 GPUs free on 1 node, largest hole 2, 1 more in parts of cards") == 0);
    OK(mortise_explain(handle, &pod, refs + 2, 1, &found, &err));
    CHECK(found.largest_node == MORTISE_NODE_REF_NONE && found.gpu_node_count == 0);
    mortise_node_ref stranger = refs[0] + 77;
    found.node_count = 42;
    EXPECT(mortise_explain(handle, &pod, &stranger, 1, &found, &err), MORTISE_ERR_UNKNOWN_NODE, "candidates[0]");
    CHECK(found.node_count == 42);

    /* A share of 500 fits beside a pod; all nodes are candidates. */
    pod = new_pod(9, 1, 500);
    mortise_score_request request = new_score(&pod, NULL, 0);
    request.flags = MORTISE_SCORE_ALL_NODES;
    mortise_node_score scores[4];
    mortise_decision decision = new_decision();
    OK(mortise_score(handle, &request, scores, 4, &decision, &err));
    CHECK(decision.node_ref == refs[0] && decision.feasible_count == 1);
    CHECK(decision.candidate_index == MORTISE_CANDIDATE_NONE);
    EXPECT(mortise_score(handle, &request, scores, 3, &decision, &err), MORTISE_ERR_BUFFER_TOO_SMALL,
           "out_scores");
    CHECK(err.required == 4);
    OK(mortise_score(handle, &request, NULL, 0, &decision, &err));
    CHECK(decision.node_ref == refs[0]);

    mortise_fragmentation_report report;
    memset(&report, 0, sizeof report);
    report.struct_size = sizeof report;
    OK(mortise_fragmentation(handle, &report, &err));
    CHECK(report.capacity_milli == 6000 && report.idle_milli == 5000);
    CHECK(report.stranded_milli >= 0 && report.stranded_milli <= report.idle_milli);

    /* A removed node's reference is stale, also when the node comes back. */
    sync = new_sync(NULL, 0, NULL, 0);
    sync.removals = &refs[1];
    sync.removal_count = 1;
    OK(mortise_sync(handle, &sync, NULL, &result, &err));
    CHECK(result.removed_count == 1 && result.node_count == 3);
    EXPECT(mortise_sync(handle, &sync, NULL, &result, &err), MORTISE_ERR_STALE_NODE, "removals[0]");
    request = new_score(&pod, refs, 4);
    EXPECT(mortise_score(handle, &request, NULL, 0, &decision, &err), MORTISE_ERR_STALE_NODE,
           "candidates[1]");
    mortise_node_ref again = 0;
    sync = new_sync(&nodes[1], 1, NULL, 0);
    OK(mortise_sync(handle, &sync, &again, &result, &err));
    CHECK(again != refs[1] && again != 0);
    free_cluster(handle);
}

static void state_and_learned_bytes(void) {
    mortise_error err = new_error();
    mortise_node_ref refs[2];
    mortise_handle handle = new_cluster(0, 2, refs);
    mortise_pod_request pod = new_pod(5, 2, 1000);
    mortise_sync_request sync = new_sync(NULL, 0, NULL, 0);
    sync.arrival = &pod;
    mortise_sync_result result = new_sync_result();
    OK(mortise_sync(handle, &sync, NULL, &result, &err));
    CHECK(result.arrival_counted == 1);
    OK(mortise_sync(handle, &sync, NULL, &result, &err));
    CHECK(result.arrival_counted == 0); /* a UID counts once */
    pod.uid_lo = 6;
    pod.flags = MORTISE_REQUEST_NO_LEARN;
    OK(mortise_sync(handle, &sync, NULL, &result, &err));
    CHECK(result.arrival_counted == 0);

    size_t length = 0;
    OK(mortise_state_export(handle, NULL, 0, &length, &err));
    CHECK(length > 0);
    uint8_t *state = malloc(length + 1);
    size_t written = 0;
    OK(mortise_state_export(handle, state, length, &written, &err));
    CHECK(written == length);
    EXPECT(mortise_state_export(handle, state, length - 1, &written, &err), MORTISE_ERR_BUFFER_TOO_SMALL,
           "out_bytes");
    CHECK(err.required == length);

    size_t learned_length = 0;
    OK(mortise_learned_export(handle, NULL, 0, &learned_length, &err));
    uint8_t *learned = malloc(learned_length);
    OK(mortise_learned_export(handle, learned, learned_length, &written, &err));

    mortise_handle other = new_cluster(0, 0, NULL);
    OK(mortise_state_import(other, state, length, &err));
    CHECK(digest_of(other) == digest_of(handle));
    OK(mortise_learned_import(other, learned, learned_length, &err));
    mortise_stats_report stats;
    memset(&stats, 0, sizeof stats);
    stats.struct_size = sizeof stats;
    OK(mortise_stats(other, &stats, &err));
    CHECK(stats.arrivals == 1 && stats.mix_kind_count == 1 && stats.node_count == 2);

    /* Bytes that are cut, changed or longer are refused whole. */
    uint64_t before = digest_of(other);
    for (size_t cut = 0; cut < length; cut += 7)
        EXPECT(mortise_state_import(other, state, cut, &err), MORTISE_ERR_INVALID_VALUE, "state");
    EXPECT(mortise_state_import(other, learned, learned_length, &err), MORTISE_ERR_INVALID_VALUE, "state");
    for (size_t cut = 0; cut < learned_length; cut += 7)
        EXPECT(mortise_learned_import(other, learned, cut, &err), MORTISE_ERR_INVALID_VALUE, "learned");
    learned[learned_length / 2] ^= 1;
    EXPECT(mortise_learned_import(other, learned, learned_length, &err), MORTISE_ERR_INVALID_VALUE, "");
    EXPECT(mortise_learned_import(other, learned, MORTISE_MAX_LEARNED_BYTES + 1, &err),
           MORTISE_ERR_LIMIT_EXCEEDED, "bytes");
    CHECK(digest_of(other) == before);
    free(state);
    free(learned);
    free_cluster(other);
    free_cluster(handle);
}

static void fixed_mix(void) {
    mortise_error err = new_error();
    mortise_mix_kind kinds[2];
    memset(kinds, 0, sizeof kinds);
    kinds[0] = (mortise_mix_kind){.cpu_milli = 8000, .allowed_models = MORTISE_MODELS_ANY, .count = 3,
                                  .gpu_count = 1, .gpu_milli = 1000};
    kinds[1] = (mortise_mix_kind){.cpu_milli = 8000, .allowed_models = MORTISE_MODELS_ANY, .count = 1,
                                  .gpu_count = 8, .gpu_milli = 1000};
    mortise_config config = new_config();
    config.mix_mode = MORTISE_MIX_FIXED;
    config.mix_kinds = kinds;
    config.mix_kind_count = 2;
    config.mix_kind_stride = sizeof kinds[0];
    mortise_handle handle = 0;
    OK(mortise_cluster_new(&config, &handle, &err));
    mortise_stats_report stats;
    memset(&stats, 0, sizeof stats);
    stats.struct_size = sizeof stats;
    OK(mortise_stats(handle, &stats, &err));
    CHECK(stats.mix_kind_count == 2);
    free_cluster(handle);

    handle = 42;
    kinds[1].count = 0;
    EXPECT(mortise_cluster_new(&config, &handle, &err), MORTISE_ERR_INVALID_VALUE, "mix_kinds[1].count");
    kinds[1].count = 1;
    kinds[1].gpu_milli = 400;
    EXPECT(mortise_cluster_new(&config, &handle, &err), MORTISE_ERR_INVALID_VALUE, "mix_kinds[1]");
    config.mix_kind_count = MORTISE_MAX_MIX_KINDS + 1;
    EXPECT(mortise_cluster_new(&config, &handle, &err), MORTISE_ERR_LIMIT_EXCEEDED, "mix_kinds");
    config.mix_kind_count = 0;
    EXPECT(mortise_cluster_new(&config, &handle, &err), MORTISE_ERR_INVALID_VALUE, "mix_kind_count");
    config.mix_mode = MORTISE_MIX_LEARNED;
    config.mix_kind_count = 1;
    EXPECT(mortise_cluster_new(&config, &handle, &err), MORTISE_ERR_INVALID_VALUE, "mix_kind_count");
    config.mix_mode = 9;
    EXPECT(mortise_cluster_new(&config, &handle, &err), MORTISE_ERR_NOT_SUPPORTED, "mix_mode");
    CHECK(handle == 42);
}

void check_lifecycle(void) {
    place_pods_until_full();
    shares_and_reasons();
    state_and_learned_bytes();
    fixed_mix();
}
