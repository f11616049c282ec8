/* Version, names, handshake. */
#include "check.h"

static void names(void) {
    CHECK(mortise_version() != NULL && strchr(mortise_version(), '.') != NULL);
    CHECK(strcmp(mortise_status_name(MORTISE_OK), "MORTISE_OK") == 0);
    CHECK(strcmp(mortise_status_name(MORTISE_ERR_NOT_SUPPORTED), "MORTISE_ERR_NOT_SUPPORTED") == 0);
    CHECK(mortise_status_name(MORTISE_ERR_NOT_SUPPORTED + 1) == NULL);
    CHECK(mortise_status_name(-1) == NULL);
    CHECK(strcmp(mortise_reason_name(MORTISE_REASON_INSUFFICIENT_CPU), "InsufficientCpu") == 0);
    CHECK(strcmp(mortise_reason_name(MORTISE_REASON_NO_NODE), "NoNode") == 0);
    CHECK(strcmp(mortise_reason_name(MORTISE_REASON_INSUFFICIENT_MIG_INSTANCES), "InsufficientMigInstances") == 0);
    CHECK(mortise_reason_name(UINT16_MAX) == NULL);
    CHECK(strcmp(mortise_strategy_name(0), "expected-stranding") == 0);
    uint32_t count = 0;
    while (mortise_strategy_name(count) != NULL)
        count++;
    CHECK(count == 9);
    CHECK(mortise_strategy_name(UINT32_MAX) == NULL);
}

static void every_strategy_makes_a_cluster(void) {
    mortise_error err = new_error();
    for (uint32_t index = 0; mortise_strategy_name(index) != NULL; index++) {
        mortise_config config = new_config();
        config.strategy = mortise_strategy_name(index);
        config.strategy_length = strlen(config.strategy);
        mortise_handle handle = 0;
        OK(mortise_cluster_new(&config, &handle, &err));
        free_cluster(handle);
    }
}

static void handshake(void) {
    mortise_error err = new_error();
    mortise_handshake_info info = mortise_handshake_info_of_header();
    OK(mortise_handshake(&info, &err));
    CHECK(mortise_handshake(&info, NULL) == MORTISE_OK);
    EXPECT(mortise_handshake(NULL, &err), MORTISE_ERR_NULL_POINTER, "info");

    info.abi_version = MORTISE_ABI_VERSION + 0x10000u;
    EXPECT(mortise_handshake(&info, &err), MORTISE_ERR_ABI_MISMATCH, "abi_version");
    info.abi_version = MORTISE_ABI_VERSION + 1;
    EXPECT(mortise_handshake(&info, &err), MORTISE_ERR_ABI_MISMATCH, "abi_version");

    /* Each size is looked at, and named. */
    static const char *const fields[] = {
        "error_size",      "config_size",      "mix_kind_size",     "node_delta_size",
        "pod_record_size", "pod_request_size", "sync_request_size", "sync_result_size",
        "score_request_size", "node_score_size", "decision_size",   "node_reason_size",
        "fragmentation_report_size", "stats_report_size", "pod_facts_size", "gang_size",
        "preempt_request_size", "victim_size", "plan_placement_size", "runner_up_size",
        "blocked_size", "checkpoint_warning_size", "plan_buffers_size", "plan_size",
        "mig_place_size", "explanation_size"};
    for (size_t field = 0; field < sizeof fields / sizeof *fields; field++) {
        info = mortise_handshake_info_of_header();
        uint32_t values[sizeof info / sizeof(uint32_t)];
        memcpy(values, &info, sizeof info);
        values[2 + field] += 8;
        memcpy(&info, values, sizeof info);
        EXPECT(mortise_handshake(&info, &err), MORTISE_ERR_ABI_MISMATCH, fields[field]);
    }
}

void check_versions(void) {
    names();
    every_strategy_makes_a_cluster();
    handshake();
}
