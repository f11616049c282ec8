/* Handles that are gone, a cluster that is busy, a call that panics. */
#include <pthread.h>
#include <time.h>

#include "check.h"

static void handles(void) {
    mortise_error err = new_error();
    mortise_handle handle = new_cluster(0, 1, NULL);
    free_cluster(handle);
    EXPECT(mortise_cluster_free(handle, &err), MORTISE_ERR_BAD_HANDLE, "handle");
    uint64_t high = 42, low = 42;
    EXPECT(mortise_state_digest(handle, &high, &low, &err), MORTISE_ERR_BAD_HANDLE, "handle");
    CHECK(high == 42 && low == 42);
    /* Its slot is used again; the old handle stays bad. */
    mortise_handle next = new_cluster(0, 1, NULL);
    CHECK(next != handle);
    EXPECT(mortise_cluster_free(handle, &err), MORTISE_ERR_BAD_HANDLE, "handle");
    static const mortise_handle strange[] = {0, 1, UINT64_MAX, UINT64_C(0xffffffff), UINT64_C(1) << 32 | 255};
    for (size_t index = 0; index < sizeof strange / sizeof *strange; index++)
        EXPECT(mortise_learn_from_pods(strange[index], &err), MORTISE_ERR_BAD_HANDLE, "handle");
    free_cluster(next);

    mortise_config config = new_config();
    static mortise_handle all[MORTISE_MAX_HANDLES];
    for (size_t index = 0; index < MORTISE_MAX_HANDLES; index++)
        CHECK(mortise_cluster_new(&config, &all[index], NULL) == MORTISE_OK);
    mortise_handle more = 42;
    EXPECT(mortise_cluster_new(&config, &more, &err), MORTISE_ERR_LIMIT_EXCEEDED, "handles");
    CHECK(more == 42);
    for (size_t index = 0; index < MORTISE_MAX_HANDLES; index++)
        CHECK(mortise_cluster_free(all[index], NULL) == MORTISE_OK);
}

enum { HOLD_MILLISECONDS = 1500 };

static void *hold(void *argument) {
    mortise_error err = new_error();
    OK(mortise_debug_hold(*(mortise_handle *)argument, HOLD_MILLISECONDS, &err));
    return NULL;
}

static void busy(void) {
    mortise_error err = new_error();
    mortise_node_ref refs[2];
    mortise_handle handle = new_cluster(MORTISE_CONFIG_ALLOW_DEBUG_HOLD, 2, refs);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, hold, &handle) == 0);
    /* A reading call is refused at once when the other thread has the cluster. */
    mortise_stats_report stats;
    memset(&stats, 0, sizeof stats);
    stats.struct_size = sizeof stats;
    const struct timespec pause = {.tv_nsec = 1000000};
    while (mortise_stats(handle, &stats, NULL) == MORTISE_OK)
        nanosleep(&pause, NULL);
    stats.node_count = 42;
    EXPECT(mortise_stats(handle, &stats, &err), MORTISE_ERR_BUSY, "another call");
    CHECK(stats.node_count == 42);
    mortise_pod_request pod = new_pod(1, 1, 1000);
    size_t count = 42;
    EXPECT(mortise_reasons(handle, &pod, 0, NULL, 0, &count, &err), MORTISE_ERR_BUSY, "another call");
    mortise_explanation explanation = new_explanation();
    EXPECT(mortise_explain(handle, &pod, NULL, 0, &explanation, &err), MORTISE_ERR_BUSY, "another call");
    EXPECT(mortise_state_export(handle, NULL, 0, &count, &err), MORTISE_ERR_BUSY, "another call");
    EXPECT(mortise_learned_export(handle, NULL, 0, &count, &err), MORTISE_ERR_BUSY, "another call");
    CHECK(count == 42);
    /* A writing call waits its time (20 ms) first. */
    mortise_score_request request = new_score(&pod, refs, 2);
    mortise_decision decision = new_decision();
    EXPECT(mortise_score(handle, &request, NULL, 0, &decision, &err), MORTISE_ERR_BUSY, "within 20 ms");
    /* Other clusters are free. */
    mortise_handle other = new_cluster(0, 2, refs);
    OK(mortise_score(other, &request, NULL, 0, &decision, &err));
    free_cluster(other);
    /* Freed while a call is running: that call ends well, later ones find nothing. */
    free_cluster(handle);
    EXPECT(mortise_stats(handle, &stats, &err), MORTISE_ERR_BAD_HANDLE, "handle");
    CHECK(pthread_join(thread, NULL) == 0);

    handle = new_cluster(0, 0, NULL);
    EXPECT(mortise_debug_hold(handle, 1, &err), MORTISE_ERR_NOT_SUPPORTED, "mortise_debug_hold");
    free_cluster(handle);
    handle = new_cluster(MORTISE_CONFIG_ALLOW_DEBUG_HOLD, 0, NULL);
    EXPECT(mortise_debug_hold(handle, MORTISE_MAX_LOCK_WAIT_MILLISECONDS + 1, &err),
           MORTISE_ERR_LIMIT_EXCEEDED, "milliseconds");
    free_cluster(handle);
}

static void poison(void) {
    mortise_error err = new_error();
    mortise_node_ref refs[2];
    mortise_handle healthy = new_cluster(0, 2, refs);
    EXPECT(mortise_debug_panic(healthy, &err), MORTISE_ERR_NOT_SUPPORTED, "mortise_debug_panic");
    mortise_handle handle = new_cluster(MORTISE_CONFIG_ALLOW_DEBUG_PANIC, 2, refs);
    EXPECT(mortise_debug_panic(handle, &err), MORTISE_ERR_PANIC, "mortise_debug_panic was called");

    /* Every call but free says so and writes nothing. */
    mortise_pod_request pod = new_pod(1, 1, 1000);
    mortise_score_request score = new_score(&pod, refs, 2);
    mortise_decision decision = new_decision();
    EXPECT(mortise_score(handle, &score, NULL, 0, &decision, &err), MORTISE_ERR_POISONED, "panicked");
    CHECK(decision.node_ref == UINT64_C(0x5a5a5a5a5a5a5a5a));
    mortise_sync_request sync = new_sync(NULL, 0, NULL, 0);
    mortise_sync_result result = new_sync_result();
    EXPECT(mortise_sync(handle, &sync, NULL, &result, &err), MORTISE_ERR_POISONED, "panicked");
    uint32_t model = 42;
    EXPECT(mortise_model_intern(handle, "T4", 2, &model, &err), MORTISE_ERR_POISONED, "panicked");
    EXPECT(mortise_learn_from_pods(handle, &err), MORTISE_ERR_POISONED, "panicked");
    size_t count = 42;
    EXPECT(mortise_reasons(handle, &pod, 0, NULL, 0, &count, &err), MORTISE_ERR_POISONED, "panicked");
    mortise_explanation explanation = new_explanation();
    EXPECT(mortise_explain(handle, &pod, refs, 2, &explanation, &err), MORTISE_ERR_POISONED, "panicked");
    mortise_stats_report stats;
    memset(&stats, 0, sizeof stats);
    stats.struct_size = sizeof stats;
    EXPECT(mortise_stats(handle, &stats, &err), MORTISE_ERR_POISONED, "panicked");
    mortise_fragmentation_report report;
    memset(&report, 0, sizeof report);
    report.struct_size = sizeof report;
    EXPECT(mortise_fragmentation(handle, &report, &err), MORTISE_ERR_POISONED, "panicked");
    uint64_t high = 42, low = 42;
    EXPECT(mortise_state_digest(handle, &high, &low, &err), MORTISE_ERR_POISONED, "panicked");
    EXPECT(mortise_state_export(handle, NULL, 0, &count, &err), MORTISE_ERR_POISONED, "panicked");
    EXPECT(mortise_learned_export(handle, NULL, 0, &count, &err), MORTISE_ERR_POISONED, "panicked");
    uint8_t byte = 0;
    EXPECT(mortise_state_import(handle, &byte, 1, &err), MORTISE_ERR_POISONED, "panicked");
    EXPECT(mortise_learned_import(handle, &byte, 1, &err), MORTISE_ERR_POISONED, "panicked");
    EXPECT(mortise_debug_panic(handle, &err), MORTISE_ERR_POISONED, "panicked");
    CHECK(model == 42 && count == 42 && high == 42 && low == 42);

    OK(mortise_score(healthy, &score, NULL, 0, &decision, &err));
    free_cluster(handle);
    free_cluster(healthy);
}

void check_faults(void) {
    handles();
    busy();
    poison();
}
