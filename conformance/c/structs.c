/* struct_size and strides: short, exact, longer than the library knows. */
#include <stdlib.h>

#include "check.h"

/* A struct with room behind it, as a caller with a newer header has. */
typedef struct {
    union {
        uint32_t struct_size;
        mortise_config config;
        mortise_stats_report stats;
        mortise_handshake_info handshake;
        unsigned char bytes[512];
    } u;
} grown;

static void inputs(void) {
    mortise_error err = new_error();
    mortise_handle handle = 42;
    mortise_config config = new_config();
    static const uint32_t bad[] = {0, 1, MORTISE_CONFIG_MIN_SIZE - 1, MORTISE_MAX_STRUCT_SIZE + 1, UINT32_MAX};
    for (size_t index = 0; index < sizeof bad / sizeof *bad; index++) {
        config.struct_size = bad[index];
        EXPECT(mortise_cluster_new(&config, &handle, &err), MORTISE_ERR_BAD_STRUCT_SIZE, "struct_size of config");
    }
    CHECK(handle == 42);

    /* Every prefix that ends after the seed is enough. It lies at the end of its memory, so that valgrind sees a
     * read beyond it. */
    for (uint32_t size = MORTISE_CONFIG_MIN_SIZE; size <= sizeof config; size++) {
        unsigned char *memory = malloc(size);
        config = new_config();
        config.struct_size = size;
        memcpy(memory, &config, size);
        OK(mortise_cluster_new((const mortise_config *)(void *)memory, &handle, &err));
        free_cluster(handle);
        free(memory);
    }

    grown longer;
    memset(&longer, 0, sizeof longer);
    longer.u.config = new_config();
    longer.u.struct_size = sizeof longer;
    OK(mortise_cluster_new(&longer.u.config, &handle, &err));
    free_cluster(handle);
    longer.u.bytes[sizeof longer - 1] = 1;
    EXPECT(mortise_cluster_new(&longer.u.config, &handle, &err), MORTISE_ERR_NOT_SUPPORTED, "config");

    memset(&longer, 0, sizeof longer);
    longer.u.handshake = mortise_handshake_info_of_header();
    longer.u.struct_size = MORTISE_HANDSHAKE_INFO_MIN_SIZE - 4;
    EXPECT(mortise_handshake(&longer.u.handshake, &err), MORTISE_ERR_BAD_STRUCT_SIZE, "info");
}

static void outputs(void) {
    mortise_error err = new_error();
    mortise_handle handle = new_cluster(0, 2, NULL);
    grown report;
    memset(&report, 0x5a, sizeof report);
    report.u.struct_size = sizeof report;
    OK(mortise_stats(handle, &report.u.stats, &err));
    CHECK(report.u.stats.node_count == 2 && report.u.struct_size == sizeof report);
    bool untouched = true;
    for (size_t at = sizeof report.u.stats; at < sizeof report; at++)
        untouched = untouched && report.u.bytes[at] == 0x5a;
    CHECK(untouched);

    memset(&report, 0x5a, sizeof report);
    report.u.struct_size = MORTISE_STATS_REPORT_MIN_SIZE;
    OK(mortise_stats(handle, &report.u.stats, &err));
    CHECK(report.u.stats.node_count == 2 && report.u.bytes[MORTISE_STATS_REPORT_MIN_SIZE] == 0x5a);
    report.u.struct_size = MORTISE_STATS_REPORT_MIN_SIZE - 1;
    report.u.stats.node_count = 42;
    EXPECT(mortise_stats(handle, &report.u.stats, &err), MORTISE_ERR_BAD_STRUCT_SIZE, "out_report");
    CHECK(report.u.stats.node_count == 42);
    mortise_fragmentation_report fragmentation;
    fragmentation.struct_size = 8;
    EXPECT(mortise_fragmentation(handle, &fragmentation, &err), MORTISE_ERR_BAD_STRUCT_SIZE, "out_report");
    free_cluster(handle);
}

static void errors(void) {
    /* The message is cut to the caller's struct and still ends in a NUL. */
    mortise_error err = new_error();
    err.struct_size = 24;
    CHECK(mortise_handshake(NULL, &err) == MORTISE_ERR_NULL_POINTER);
    CHECK(err.status == MORTISE_ERR_NULL_POINTER && err.struct_size == 24);
    CHECK(strcmp(err.message, "info is") == 0 && (unsigned char)err.message[8] == 0x5a);
    err = new_error();
    err.struct_size = MORTISE_ERROR_MIN_SIZE;
    CHECK(mortise_handshake(NULL, &err) == MORTISE_ERR_NULL_POINTER);
    CHECK(err.status == MORTISE_ERR_NULL_POINTER && (unsigned char)err.message[0] == 0x5a);
    err.struct_size = MORTISE_ERROR_MIN_SIZE - 1;
    mortise_handshake_info info = mortise_handshake_info_of_header();
    CHECK(mortise_handshake(&info, &err) == MORTISE_ERR_BAD_STRUCT_SIZE);
    err.struct_size = 0;
    CHECK(mortise_handshake(&info, &err) == MORTISE_ERR_BAD_STRUCT_SIZE);
    CHECK(mortise_handshake(NULL, NULL) == MORTISE_ERR_NULL_POINTER);
}

/* An element as a newer header may have it. */
typedef struct {
    mortise_node_delta node;
    uint64_t added;
} grown_node;

static void strides(void) {
    mortise_error err = new_error();
    mortise_handle handle = new_cluster(0, 0, NULL);
    grown_node nodes[3];
    memset(nodes, 0, sizeof nodes);
    for (size_t index = 0; index < 3; index++) {
        nodes[index].node = new_node(index + 1, 4);
        nodes[index].node.model_id = 0;
    }
    mortise_sync_request sync = new_sync(&nodes[0].node, 3, NULL, 0);
    sync.upsert_stride = sizeof nodes[0];
    mortise_node_ref refs[3];
    mortise_sync_result result = new_sync_result();
    OK(mortise_sync(handle, &sync, refs, &result, &err));
    CHECK(result.added_count == 3 && result.node_count == 3);
    nodes[2].added = 1;
    EXPECT(mortise_sync(handle, &sync, refs, &result, &err), MORTISE_ERR_NOT_SUPPORTED, "upserts[2]");
    static const uint32_t bad[] = {0, 8, MORTISE_NODE_DELTA_MIN_SIZE - 8, MORTISE_NODE_DELTA_MIN_SIZE + 4,
                                   MORTISE_MAX_STRUCT_SIZE + 8, UINT32_MAX};
    for (size_t index = 0; index < sizeof bad / sizeof *bad; index++) {
        sync.upsert_stride = bad[index];
        EXPECT(mortise_sync(handle, &sync, refs, &result, &err), MORTISE_ERR_BAD_STRUCT_SIZE,
               "stride of request.upserts");
    }

    struct {
        mortise_node_score score;
        uint64_t added;
    } scores[3];
    memset(scores, 0x5a, sizeof scores);
    mortise_pod_request pod = new_pod(1, 1, 1000);
    mortise_score_request request = new_score(&pod, refs, 3);
    request.score_stride = sizeof scores[0];
    mortise_decision decision = new_decision();
    OK(mortise_score(handle, &request, &scores[0].score, 3, &decision, &err));
    for (size_t index = 0; index < 3; index++)
        CHECK(scores[index].score.node_ref == refs[index] && scores[index].added == UINT64_C(0x5a5a5a5a5a5a5a5a));
    request.score_stride = 0;
    EXPECT(mortise_score(handle, &request, &scores[0].score, 3, &decision, &err), MORTISE_ERR_BAD_STRUCT_SIZE,
           "stride of out_scores");
    mortise_node_reason reasons[3];
    size_t count = 42;
    EXPECT(mortise_reasons(handle, &pod, 8, reasons, 3, &count, &err), MORTISE_ERR_BAD_STRUCT_SIZE,
           "stride of out_reasons");

    mortise_explanation explanation = new_explanation();
    explanation.struct_size = MORTISE_EXPLANATION_MIN_SIZE - 1;
    EXPECT(mortise_explain(handle, &pod, refs, 3, &explanation, &err), MORTISE_ERR_BAD_STRUCT_SIZE,
           "out_explanation");

    /* Shorter requests: no arrival, no tie_salt. */
    request = new_score(&pod, refs, 3);
    request.struct_size = MORTISE_SCORE_REQUEST_MIN_SIZE;
    request.tie_salt = 99;
    OK(mortise_score(handle, &request, NULL, 0, &decision, &err));
    sync = new_sync(NULL, 0, NULL, 0);
    sync.struct_size = MORTISE_SYNC_REQUEST_MIN_SIZE;
    sync.arrival = (const mortise_pod_request *)(const void *)&count; /* beyond struct_size: not read */
    OK(mortise_sync(handle, &sync, NULL, &result, &err));
    sync.struct_size = MORTISE_SYNC_REQUEST_MIN_SIZE - 1;
    EXPECT(mortise_sync(handle, &sync, NULL, &result, &err), MORTISE_ERR_BAD_STRUCT_SIZE, "request");
    pod.struct_size = MORTISE_POD_REQUEST_MIN_SIZE - 1;
    EXPECT(mortise_score(handle, &request, NULL, 0, &decision, &err), MORTISE_ERR_BAD_STRUCT_SIZE, "request.pod");
    decision.struct_size = MORTISE_DECISION_MIN_SIZE - 1;
    EXPECT(mortise_score(handle, &request, NULL, 0, &decision, &err), MORTISE_ERR_BAD_STRUCT_SIZE, "");
    free_cluster(handle);
}

void check_structs(void) {
    inputs();
    outputs();
    errors();
    strides();
}
