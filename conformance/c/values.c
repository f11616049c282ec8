/* Values outside their range, unknown and stale names, limits. A failed call changes nothing. */
#include "check.h"

static mortise_handle handle;
static mortise_node_ref refs[2];

static void expect_config(mortise_config config, mortise_status status, const char *names) {
    mortise_error err = new_error();
    mortise_handle made = 42;
    EXPECT(mortise_cluster_new(&config, &made, &err), status, names);
    CHECK(made == 42);
}

static void configs(void) {
    mortise_config config = new_config();
    config.strategy = "fastest";
    config.strategy_length = 7;
    expect_config(config, MORTISE_ERR_INVALID_VALUE, "fastest");
    config.strategy = "\xff\xfe";
    config.strategy_length = 2;
    expect_config(config, MORTISE_ERR_INVALID_VALUE, "config.strategy");
    config.strategy_length = 0;
    expect_config(config, MORTISE_ERR_INVALID_VALUE, "config.strategy");
    config.strategy_length = MORTISE_MAX_STRATEGY_BYTES + 1;
    expect_config(config, MORTISE_ERR_LIMIT_EXCEEDED, "config.strategy");
    config = new_config();
    config.flags = 1u << 31;
    expect_config(config, MORTISE_ERR_NOT_SUPPORTED, "config.flags");
    config = new_config();
    config.threads = MORTISE_MAX_THREADS + 1;
    expect_config(config, MORTISE_ERR_LIMIT_EXCEEDED, "config.threads");
    config = new_config();
    config.memo_bytes = UINT64_MAX;
    expect_config(config, MORTISE_ERR_LIMIT_EXCEEDED, "memo_bytes");
    config = new_config();
    config.lock_wait_milliseconds = MORTISE_MAX_LOCK_WAIT_MILLISECONDS + 1;
    expect_config(config, MORTISE_ERR_LIMIT_EXCEEDED, "lock_wait_milliseconds");
}

static void models(void) {
    mortise_error err = new_error();
    uint32_t model = 42;
    EXPECT(mortise_model_intern(handle, "", 0, &model, &err), MORTISE_ERR_INVALID_VALUE, "name");
    EXPECT(mortise_model_intern(handle, "\xc3(", 2, &model, &err), MORTISE_ERR_INVALID_VALUE, "name");
    char name[MORTISE_MAX_MODEL_NAME_BYTES + 1];
    memset(name, 'x', sizeof name);
    EXPECT(mortise_model_intern(handle, name, sizeof name, &model, &err), MORTISE_ERR_LIMIT_EXCEEDED, "name");
    CHECK(model == 42);
    OK(mortise_model_intern(handle, "A100", 4, &model, &err));
    CHECK(model == 0);

    mortise_handle other = new_cluster(0, 0, NULL);
    for (uint32_t index = 1; index < MORTISE_MAX_MODELS; index++) {
        int length = snprintf(name, sizeof name, "model-%u", index);
        OK(mortise_model_intern(other, name, (size_t)length, &model, &err));
        CHECK(model == index);
    }
    EXPECT(mortise_model_intern(other, "one more", 8, &model, &err), MORTISE_ERR_LIMIT_EXCEEDED, "one more");
    free_cluster(other);
}

static void expect_node(mortise_node_delta node, mortise_status status, const char *names) {
    mortise_error err = new_error();
    mortise_node_ref ref = 42;
    mortise_sync_request sync = new_sync(&node, 1, NULL, 0);
    mortise_sync_result result = new_sync_result();
    EXPECT(mortise_sync(handle, &sync, &ref, &result, &err), status, names);
    CHECK(ref == 42 && result.node_count == 0x5a5a5a5a);
}

static void nodes(void) {
    mortise_node_delta node = new_node(9, 17);
    expect_node(node, MORTISE_ERR_LIMIT_EXCEEDED, "gpu_count");
    node = new_node(9, UINT16_MAX);
    expect_node(node, MORTISE_ERR_LIMIT_EXCEEDED, "upserts[0].gpu_count");
    node = new_node(9, 2);
    node.gpu_capacity_milli[1] = 1001;
    expect_node(node, MORTISE_ERR_INVALID_VALUE, "upserts[0].gpu_capacity_milli[1]");
    node = new_node(9, 2);
    node.gpu_capacity_milli[2] = 1000;
    expect_node(node, MORTISE_ERR_INVALID_VALUE, "gpu_capacity[2]");
    node = new_node(9, 2);
    node.model_id = 1; /* not interned here */
    expect_node(node, MORTISE_ERR_INVALID_VALUE, "model");
    node.model_id = UINT32_MAX - 1;
    expect_node(node, MORTISE_ERR_INVALID_VALUE, "upserts[0].model_id");
    node = new_node(9, 2);
    node.cpu_free_milli = INT64_MIN;
    expect_node(node, MORTISE_ERR_LIMIT_EXCEEDED, "cpu_free");
    node = new_node(9, 2);
    node.memory_allocatable_bytes = -1;
    expect_node(node, MORTISE_ERR_INVALID_VALUE, "memory_allocatable");
    node = new_node(9, 2);
    node.flags = 0x8000;
    expect_node(node, MORTISE_ERR_NOT_SUPPORTED, "upserts[0].flags");
    node = new_node(9, 2);
    node.pod_count = 1; /* out of range: there are no pods */
    expect_node(node, MORTISE_ERR_BAD_LENGTH, "pod_count");
    node.pod_count = UINT32_MAX;
    node.first_pod = UINT32_MAX;
    expect_node(node, MORTISE_ERR_LIMIT_EXCEEDED, "pod_count");
    node = new_node(9, 2);
    node.node_ref = UINT64_C(0xffffffffffffffff);
    expect_node(node, MORTISE_ERR_UNKNOWN_NODE, "upserts[0]");
    node.node_ref = refs[0]; /* of the node with key 1 */
    expect_node(node, MORTISE_ERR_INVALID_VALUE, "key");
}

static void node_lists(void) {
    mortise_error err = new_error();
    mortise_sync_result result = new_sync_result();
    mortise_node_delta pair[2] = {new_node(9, 2), new_node(9, 2)};
    mortise_sync_request sync = new_sync(pair, 2, NULL, 0);
    EXPECT(mortise_sync(handle, &sync, NULL, &result, &err), MORTISE_ERR_DUPLICATE_NODE, "upserts[1]");
    mortise_node_ref gone[2] = {refs[0], refs[0]};
    sync = new_sync(NULL, 0, NULL, 0);
    sync.removals = gone;
    sync.removal_count = 2;
    EXPECT(mortise_sync(handle, &sync, NULL, &result, &err), MORTISE_ERR_DUPLICATE_NODE, "removals[1]");
    gone[1] = MORTISE_NODE_REF_NONE;
    EXPECT(mortise_sync(handle, &sync, NULL, &result, &err), MORTISE_ERR_UNKNOWN_NODE, "removals[1]");
    sync.removal_count = 0;
    sync.flags = 2;
    EXPECT(mortise_sync(handle, &sync, NULL, &result, &err), MORTISE_ERR_NOT_SUPPORTED, "request.flags");
    /* A pod that belongs to no node. */
    mortise_pod_record pod = new_pod_record(1, 1, 1000, 1);
    sync = new_sync(pair, 1, &pod, 1);
    EXPECT(mortise_sync(handle, &sync, NULL, &result, &err), MORTISE_ERR_BAD_LENGTH, "pods");
}

static void expect_record(mortise_pod_record pod, mortise_status status, const char *names) {
    mortise_error err = new_error();
    mortise_node_delta node = new_node(9, 2);
    node.pod_count = 1;
    mortise_sync_request sync = new_sync(&node, 1, &pod, 1);
    mortise_sync_result result = new_sync_result();
    EXPECT(mortise_sync(handle, &sync, NULL, &result, &err), status, names);
}

static void pod_records(void) {
    mortise_pod_record pod = new_pod_record(1, 1, 1000, 4);
    expect_record(pod, MORTISE_ERR_INVALID_VALUE, "devices");
    pod = new_pod_record(1, 2, 1000, 1);
    expect_record(pod, MORTISE_ERR_INVALID_VALUE, "known devices + unknown cards");
    pod = new_pod_record(1, 2, 500, 3);
    expect_record(pod, MORTISE_ERR_INVALID_VALUE, "pods[0]");
    pod = new_pod_record(1, 17, 1000, 0);
    expect_record(pod, MORTISE_ERR_LIMIT_EXCEEDED, "pods[0]");
    pod = new_pod_record(1, 0, 0, 0);
    pod.unknown_cards = UINT16_MAX;
    expect_record(pod, MORTISE_ERR_LIMIT_EXCEEDED, "pods[0].unknown_cards");
    pod = new_pod_record(1, 1, 1000, 1);
    pod.tier = 3;
    expect_record(pod, MORTISE_ERR_INVALID_VALUE, "pods[0].tier");
    pod = new_pod_record(1, 1, 1000, 1);
    pod.flags = 0x80;
    expect_record(pod, MORTISE_ERR_NOT_SUPPORTED, "pods[0].flags");
    pod = new_pod_record(1, 1, 1000, 1);
    pod.mig_count = MORTISE_MAX_MIG_PER_POD + 1;
    expect_record(pod, MORTISE_ERR_LIMIT_EXCEEDED, "pods[0].mig_count");
    pod = new_pod_record(1, 1, 1000, 1);
    pod.cpu_milli = -1;
    expect_record(pod, MORTISE_ERR_INVALID_VALUE, "cpu");
}

static void expect_pod(mortise_pod_request pod, mortise_status status, const char *names) {
    mortise_error err = new_error();
    mortise_score_request request = new_score(&pod, refs, 2);
    mortise_decision decision = new_decision();
    EXPECT(mortise_score(handle, &request, NULL, 0, &decision, &err), status, names);
    CHECK(decision.node_ref == UINT64_C(0x5a5a5a5a5a5a5a5a));
    size_t count = 42;
    EXPECT(mortise_reasons(handle, &pod, 0, NULL, 0, &count, &err), status, names);
    mortise_explanation explanation = new_explanation();
    EXPECT(mortise_explain(handle, &pod, NULL, 0, &explanation, &err), status, names);
    CHECK(count == 42);
    mortise_sync_request sync = new_sync(NULL, 0, NULL, 0);
    sync.arrival = &pod;
    mortise_sync_result result = new_sync_result();
    EXPECT(mortise_sync(handle, &sync, NULL, &result, &err), status, names);
}

static void pods(void) {
    expect_pod(new_pod(1, 0, 500), MORTISE_ERR_INVALID_VALUE, "gpu");
    expect_pod(new_pod(1, 1, 0), MORTISE_ERR_INVALID_VALUE, "gpu");
    expect_pod(new_pod(1, 1, 1001), MORTISE_ERR_INVALID_VALUE, "1001");
    expect_pod(new_pod(1, 2, 500), MORTISE_ERR_INVALID_VALUE, "2 cards of 500");
    expect_pod(new_pod(1, 17, 1000), MORTISE_ERR_LIMIT_EXCEEDED, "17");
    mortise_pod_request pod = new_pod(1, 1, 1000);
    pod.tier = UINT8_MAX;
    expect_pod(pod, MORTISE_ERR_INVALID_VALUE, "tier is 255");
    pod = new_pod(1, 1, 1000);
    pod.cpu_milli = -1;
    expect_pod(pod, MORTISE_ERR_INVALID_VALUE, "cpu");
    pod.cpu_milli = INT64_MAX;
    expect_pod(pod, MORTISE_ERR_LIMIT_EXCEEDED, "cpu");
    pod = new_pod(1, 1, 1000);
    pod.memory_bytes = INT64_MIN;
    expect_pod(pod, MORTISE_ERR_INVALID_VALUE, "memory");
    pod = new_pod(1, 1, 1000);
    pod.flags = 4;
    expect_pod(pod, MORTISE_ERR_NOT_SUPPORTED, "flags");
    pod = new_pod(1, 1, 1000);
    pod.reserved[6] = 1;
    expect_pod(pod, MORTISE_ERR_NOT_SUPPORTED, "reserved");
}

static void candidates(void) {
    mortise_error err = new_error();
    mortise_pod_request pod = new_pod(1, 1, 1000);
    mortise_decision decision = new_decision();
    mortise_node_ref strange[2] = {refs[0], refs[1] + 1000};
    mortise_score_request request = new_score(&pod, strange, 2);
    EXPECT(mortise_score(handle, &request, NULL, 0, &decision, &err), MORTISE_ERR_UNKNOWN_NODE, "candidates[1]");
    request = new_score(&pod, refs, 2);
    request.flags = MORTISE_SCORE_ALL_NODES;
    EXPECT(mortise_score(handle, &request, NULL, 0, &decision, &err), MORTISE_ERR_INVALID_VALUE,
           "candidate_count");
    request.flags = 8;
    EXPECT(mortise_score(handle, &request, NULL, 0, &decision, &err), MORTISE_ERR_NOT_SUPPORTED, "request.flags");
    request = new_score(&pod, refs, 2);
    request.reserved = 1;
    EXPECT(mortise_score(handle, &request, NULL, 0, &decision, &err), MORTISE_ERR_NOT_SUPPORTED, "reserved");
    /* No models allowed is a valid wish that nothing meets; so are no candidates. */
    pod.allowed_models = 0;
    request = new_score(&pod, refs, 2);
    mortise_node_score scores[2];
    OK(mortise_score(handle, &request, scores, 2, &decision, &err));
    CHECK(decision.feasible_count == 0 && scores[1].reason == MORTISE_REASON_MODEL_MISMATCH);
    request = new_score(&pod, NULL, 0);
    OK(mortise_score(handle, &request, NULL, 0, &decision, &err));
    CHECK(decision.feasible_count == 0 && decision.node_ref == MORTISE_NODE_REF_NONE);
}

void check_values(void) {
    handle = new_cluster(0, 2, refs);
    uint64_t before = digest_of(handle);
    configs();
    models();
    nodes();
    node_lists();
    pod_records();
    pods();
    candidates();
    CHECK(digest_of(handle) == before);
    free_cluster(handle);
}
