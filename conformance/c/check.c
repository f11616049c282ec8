#include "check.h"

unsigned checks_passed;
unsigned checks_failed;

void check_true(bool holds, const char *what, const char *file, int line) {
    if (holds) {
        checks_passed++;
        return;
    }
    checks_failed++;
    fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, what);
}

void check_call(mortise_status got, mortise_status want, const mortise_error *err, const char *names,
                const char *what, const char *file, int line) {
    bool message = names == NULL ? err->message[0] == '\0' : strstr(err->message, names) != NULL;
    if (got == want && err->status == want && message) {
        checks_passed++;
        return;
    }
    checks_failed++;
    const char *got_name = mortise_status_name(got);
    fprintf(stderr, "%s:%d: %s\n    is %s (%d), err.status %d, \"%s\"\n    expected %s naming \"%s\"\n", file,
            line, what, got_name ? got_name : "?", got, err->status, err->message,
            mortise_status_name(want), names ? names : "");
}

mortise_error new_error(void) {
    mortise_error err;
    memset(&err, 0x5a, sizeof err);
    err.struct_size = sizeof err;
    return err;
}

mortise_config new_config(void) {
    mortise_config config;
    memset(&config, 0, sizeof config);
    config.struct_size = sizeof config;
    config.seed = 7;
    config.lock_wait_milliseconds = 20;
    return config;
}

mortise_node_delta new_node(uint64_t key, uint16_t gpu_count) {
    mortise_node_delta node;
    memset(&node, 0, sizeof node);
    node.node_key = key;
    node.generation = 1;
    node.cpu_free_milli = node.cpu_allocatable_milli = 96000;
    node.memory_free_bytes = node.memory_allocatable_bytes = 512 * GIB;
    node.model_id = MORTISE_MODEL_NONE;
    node.gpu_count = gpu_count;
    node.flags = MORTISE_NODE_OFFERS_SHARES;
    for (unsigned device = 0; device < gpu_count && device < MORTISE_MAX_GPUS_PER_NODE; device++)
        node.gpu_capacity_milli[device] = MORTISE_MILLI_PER_GPU;
    return node;
}

mortise_pod_record new_pod_record(uint64_t uid, uint16_t gpu_count, uint16_t gpu_milli, uint16_t devices) {
    mortise_pod_record pod;
    memset(&pod, 0, sizeof pod);
    pod.uid_lo = uid;
    pod.cpu_milli = 4000;
    pod.memory_bytes = GIB;
    pod.start_seconds = 1700000000;
    pod.checkpoint_seconds = MORTISE_CHECKPOINT_NONE;
    pod.allowed_models = MORTISE_MODELS_ANY;
    pod.gpu_count = gpu_count;
    pod.gpu_milli = gpu_milli;
    pod.device_mask = devices;
    pod.tier = MORTISE_TIER_TRAINING;
    return pod;
}

mortise_pod_request new_pod(uint64_t uid, uint16_t gpu_count, uint16_t gpu_milli) {
    mortise_pod_request pod;
    memset(&pod, 0, sizeof pod);
    pod.struct_size = sizeof pod;
    pod.uid_lo = uid;
    pod.cpu_milli = 4000;
    pod.memory_bytes = GIB;
    pod.allowed_models = MORTISE_MODELS_ANY;
    pod.gpu_count = gpu_count;
    pod.gpu_milli = gpu_milli;
    pod.tier = MORTISE_TIER_TRAINING;
    return pod;
}

mortise_sync_request new_sync(const mortise_node_delta *nodes, size_t node_count,
                              const mortise_pod_record *pods, size_t pod_count) {
    mortise_sync_request request;
    memset(&request, 0, sizeof request);
    request.struct_size = sizeof request;
    request.upserts = nodes;
    request.upsert_count = node_count;
    request.upsert_stride = sizeof *nodes;
    request.pods = pods;
    request.pod_count = pod_count;
    request.pod_stride = sizeof *pods;
    return request;
}

mortise_score_request new_score(const mortise_pod_request *pod, const mortise_node_ref *candidates,
                                size_t candidate_count) {
    mortise_score_request request;
    memset(&request, 0, sizeof request);
    request.struct_size = sizeof request;
    request.pod = pod;
    request.candidates = candidates;
    request.candidate_count = candidate_count;
    request.score_stride = sizeof(mortise_node_score);
    return request;
}

mortise_sync_result new_sync_result(void) {
    mortise_sync_result result;
    memset(&result, 0x5a, sizeof result);
    result.struct_size = sizeof result;
    return result;
}

mortise_decision new_decision(void) {
    mortise_decision decision;
    memset(&decision, 0x5a, sizeof decision);
    decision.struct_size = sizeof decision;
    return decision;
}

mortise_explanation new_explanation(void) {
    mortise_explanation explanation;
    memset(&explanation, 0x5a, sizeof explanation);
    explanation.struct_size = sizeof explanation;
    return explanation;
}

mortise_handle new_cluster(uint32_t config_flags, size_t node_count, mortise_node_ref *refs) {
    mortise_error err = new_error();
    mortise_config config = new_config();
    config.flags = config_flags;
    mortise_handle handle = 0;
    OK(mortise_cluster_new(&config, &handle, &err));
    uint32_t model = UINT32_MAX;
    OK(mortise_model_intern(handle, "A100", 4, &model, &err));
    mortise_node_delta nodes[16];
    for (size_t index = 0; index < node_count; index++) {
        nodes[index] = new_node(index + 1, 8);
        nodes[index].model_id = model;
    }
    mortise_sync_request request = new_sync(nodes, node_count, NULL, 0);
    mortise_sync_result result = new_sync_result();
    OK(mortise_sync(handle, &request, refs, &result, &err));
    CHECK(result.node_count == node_count && result.added_count == node_count);
    return handle;
}

void free_cluster(mortise_handle handle) {
    mortise_error err = new_error();
    OK(mortise_cluster_free(handle, &err));
}

uint64_t digest_of(mortise_handle handle) {
    mortise_error err = new_error();
    uint64_t high = 0, low = 0;
    OK(mortise_state_digest(handle, &high, &low, &err));
    return high ^ (low * UINT64_C(0x9e3779b97f4a7c15));
}

int main(void) {
    check_versions();
    check_lifecycle();
    check_pointers();
    check_structs();
    check_values();
    check_preempt();
    check_mig();
    check_faults();
    check_memory();
    printf("%u passed, %u failed\n", checks_passed, checks_failed);
    return checks_failed == 0 ? 0 : 1;
}
