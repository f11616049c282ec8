/* An allocator that has no large blocks left: large buffers are reserved fallibly, the call says so and changes nothing. */
#include <errno.h>
#include <stdlib.h>

#include "check.h"

/* The linker sends every allocation of the program, the library's included, here (-Wl,--wrap). */
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
int __real_posix_memalign(void **out, size_t alignment, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *block, size_t size);
int __wrap_posix_memalign(void **out, size_t alignment, size_t size);

static size_t largest_block = SIZE_MAX;
static unsigned refused;

static bool refuse(size_t size) {
    if (size <= largest_block)
        return false;
    refused++;
    return true;
}

void *__wrap_malloc(size_t size) { return refuse(size) ? NULL : __real_malloc(size); }

void *__wrap_calloc(size_t count, size_t size) {
    return refuse(count * size) ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *block, size_t size) { return refuse(size) ? NULL : __real_realloc(block, size); }

int __wrap_posix_memalign(void **out, size_t alignment, size_t size) {
    return refuse(size) ? ENOMEM : __real_posix_memalign(out, alignment, size);
}

/* The call fails for want of memory and nothing else. */
#define EXPECT_NO_MEMORY(call, names)                       \
    do {                                                    \
        unsigned before_ = refused;                         \
        largest_block = limit;                              \
        mortise_status status_ = (call);                    \
        largest_block = SIZE_MAX;                           \
        EXPECT(status_, MORTISE_ERR_OUT_OF_MEMORY, names);  \
        CHECK(refused > before_);                           \
    } while (0)

enum { NODES = 6000, PODS_PER_NODE = 4 };

void check_memory(void) {
    size_t limit = 32 * 1024;
    mortise_error err = new_error();
    mortise_config config = new_config();
    mortise_handle handle = 0;
    OK(mortise_cluster_new(&config, &handle, &err));
    mortise_node_delta *nodes = malloc(NODES * sizeof *nodes);
    mortise_pod_record *pods = malloc(NODES * PODS_PER_NODE * sizeof *pods);
    mortise_node_ref *refs = malloc(NODES * sizeof *refs);
    for (size_t index = 0; index < NODES; index++) {
        nodes[index] = new_node(index + 1, PODS_PER_NODE);
        nodes[index].first_pod = (uint32_t)(index * PODS_PER_NODE);
        nodes[index].pod_count = PODS_PER_NODE;
        for (size_t pod = 0; pod < PODS_PER_NODE; pod++)
            pods[index * PODS_PER_NODE + pod] =
                new_pod_record(index * PODS_PER_NODE + pod + 1, 1, 500, (uint16_t)(1u << pod));
    }
    uint64_t empty = digest_of(handle);
    mortise_sync_request sync = new_sync(nodes, NODES, pods, NODES * PODS_PER_NODE);
    mortise_sync_result result = new_sync_result();
    EXPECT_NO_MEMORY(mortise_sync(handle, &sync, refs, &result, &err), "no memory for");
    CHECK(digest_of(handle) == empty && result.node_count == 0x5a5a5a5a);
    OK(mortise_sync(handle, &sync, refs, &result, &err));
    CHECK(result.node_count == NODES && result.pod_count == NODES * PODS_PER_NODE);
    uint64_t full = digest_of(handle);

    mortise_handle other = new_cluster(0, 2, NULL);
    uint64_t small = digest_of(other);
    mortise_pod_request pod = new_pod(1, 1, 1000);
    mortise_score_request score = new_score(&pod, refs, NODES);
    mortise_decision decision = new_decision();
    EXPECT_NO_MEMORY(mortise_score(other, &score, NULL, 0, &decision, &err), "candidates");
    mortise_explanation explanation = new_explanation();
    EXPECT_NO_MEMORY(mortise_explain(other, &pod, refs, NODES, &explanation, &err), "candidates");
    size_t count = 42, length = 0, written = 42;
    mortise_node_reason *reasons = malloc(NODES * sizeof *reasons);
    EXPECT_NO_MEMORY(mortise_reasons(handle, &pod, sizeof *reasons, reasons, NODES, &count, &err), "reasons");
    CHECK(count == 42 && decision.node_ref == UINT64_C(0x5a5a5a5a5a5a5a5a));

    OK(mortise_state_export(handle, NULL, 0, &length, &err));
    uint8_t *state = malloc(length);
    limit = length - 1; /* the order of the nodes, 8 bytes for each, is not among the large buffers */
    EXPECT_NO_MEMORY(mortise_state_export(handle, state, length, &written, &err), "cluster state");
    CHECK(written == 42);
    OK(mortise_state_export(handle, state, length, &written, &err));
    EXPECT_NO_MEMORY(mortise_state_import(other, state, length, &err), "bytes");
    CHECK(digest_of(other) == small);
    OK(mortise_state_import(other, state, length, &err));
    CHECK(digest_of(other) == full);

    free(state);
    free(reasons);
    free(refs);
    free(pods);
    free(nodes);
    free_cluster(other);
    free_cluster(handle);
}
