/* Counting checks and the small cluster that the checks work on. */
#ifndef CHECK_H
#define CHECK_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "mortise.h"

extern unsigned checks_passed;
extern unsigned checks_failed;

void check_true(bool holds, const char *what, const char *file, int line);
/* The call returned that status, err has it too, and the message contains `names` (NULL: is empty). */
void check_call(mortise_status got, mortise_status want, const mortise_error *err, const char *names,
                const char *what, const char *file, int line);

#define CHECK(condition) check_true((condition), #condition, __FILE__, __LINE__)
/* `call` uses a mortise_error named err. */
#define EXPECT(call, status, names)                                                     \
    do {                                                                                \
        mortise_status got_ = (call);                                                   \
        check_call(got_, (status), &err, (names), #call, __FILE__, __LINE__);           \
    } while (0)
#define OK(call) EXPECT(call, MORTISE_OK, NULL)

#define GIB (INT64_C(1) << 30)

/* Ready-made values; the checks change what they are about. */
mortise_error new_error(void);
mortise_config new_config(void);
mortise_node_delta new_node(uint64_t key, uint16_t gpu_count);
mortise_pod_record new_pod_record(uint64_t uid, uint16_t gpu_count, uint16_t gpu_milli, uint16_t devices);
mortise_pod_request new_pod(uint64_t uid, uint16_t gpu_count, uint16_t gpu_milli);
mortise_sync_request new_sync(const mortise_node_delta *nodes, size_t node_count,
                              const mortise_pod_record *pods, size_t pod_count);
mortise_score_request new_score(const mortise_pod_request *pod, const mortise_node_ref *candidates,
                                size_t candidate_count);
mortise_sync_result new_sync_result(void);
mortise_decision new_decision(void);
mortise_explanation new_explanation(void);

/* A cluster of node_count nodes of 8 GPUs (keys 1, 2, ...), model "A100" on all. */
mortise_handle new_cluster(uint32_t config_flags, size_t node_count, mortise_node_ref *refs);
void free_cluster(mortise_handle handle);
/* Both halves of the digest mixed; equal for equal states. */
uint64_t digest_of(mortise_handle handle);

void check_versions(void);
void check_lifecycle(void);
void check_pointers(void);
void check_structs(void);
void check_values(void);
void check_preempt(void);
void check_mig(void);
void check_faults(void);
void check_memory(void);

#endif
