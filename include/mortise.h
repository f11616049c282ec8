/*
 * Mortise: GPU placement decisions behind a C ABI.
 *
 * SPDX-License-Identifier: Apache-2.0
 *
 * This header is the only contract between the Rust library (libmortise.a) and
 * its hosts. Rust takes its types from it by bindgen, Go by cgo, C and C++
 * compile it. It is valid C11 and C++17 and needs a 64-bit little-endian host.
 *
 * A cluster is a handle. A host keeps it equal to what it knows of the nodes
 * with mortise_sync() and asks mortise_score() where a pod should go.
 *
 *     mortise_handshake()          once, before anything else
 *     mortise_cluster_new()        a handle
 *     mortise_model_intern()       a number for each GPU model of the nodes
 *     mortise_sync()               nodes and pods that changed (or everything)
 *     mortise_score()              node and devices for a pod
 *     mortise_reasons()            why each other node does not fit
 *     mortise_explain()            how much is free for it, in a few figures and a sentence
 *     mortise_preempt()            who must give way if none fits
 *     mortise_cluster_free()
 *
 * UNITS
 *   CPU is in milli-cores. Memory is in bytes. GPU is in milli per device: a
 *   whole healthy device has 1000, an unhealthy one 0. Times are seconds since
 *   the Unix epoch; the library has no clock. Devices are numbered 0..15 on
 *   their node; a set of devices is a bit mask, bit i for device i.
 *
 * CALLS
 *   Inputs come first, outputs last, then an optional mortise_error. Every call
 *   returns a mortise_status. Outputs are written only when it is MORTISE_OK;
 *   after an error they hold what they held before. The mortise_error (may be
 *   NULL) is written in both cases. There is no thread-local error state.
 *   A failed call changes nothing in the cluster: input is validated whole and
 *   then applied.
 *
 * STRUCTS
 *   A struct that is passed by pointer starts with struct_size, which the
 *   caller sets to sizeof. The library reads (or writes) the smaller of
 *   struct_size and the size it knows; fields a caller does not have are taken
 *   as zero. struct_size below MORTISE_<NAME>_MIN_SIZE or above
 *   MORTISE_MAX_STRUCT_SIZE is MORTISE_ERR_BAD_STRUCT_SIZE. Bytes beyond the
 *   size the library knows must be zero in inputs: otherwise the caller asks
 *   for something this library does not have, MORTISE_ERR_NOT_SUPPORTED. In
 *   outputs such bytes, and struct_size itself, stay as they were.
 *   Elements of arrays have no struct_size; the stride in bytes is passed beside
 *   the array and follows the same rules (and is a multiple of 8).
 *   Fields named reserved, and undefined flag bits, must be zero in inputs and
 *   are zero in outputs. All bytes up to struct_size, padding excepted, must be
 *   initialised.
 *
 * OWNERSHIP
 *   The caller owns every buffer. The library reads inputs and writes outputs
 *   during the call and keeps no pointer after it; it never frees or returns
 *   memory of the other side, and never calls back. Strings that are returned
 *   (mortise_version, mortise_*_name) are static. The only thing to give back
 *   is a handle, with mortise_cluster_free().
 *
 * THREADS AND ALIASING
 *   Every function may be called from any thread, also from different threads
 *   one after the other. Calls on different handles do not wait for each other.
 *   On one handle:
 *   - writing calls (model_intern, sync, learn_from_pods, score,
 *     *_import, debug_*) exclude each other and wait at most
 *     lock_wait_milliseconds of the configuration, then MORTISE_ERR_BUSY;
 *   - reading calls (reasons, explain, preempt, preempt_group, fragmentation, stats,
 *     state_digest, state_export, learned_export) run beside each other and
 *     never wait for a writing call: MORTISE_ERR_BUSY at once;
 *   - cluster_free never waits. A call that is running on the handle finishes
 *     as usual; the memory goes with the last of them.
 *   During a call no other thread may write its inputs, or read or write its
 *   outputs or its mortise_error. No output (nor the mortise_error) may overlap
 *   an input or another output: MORTISE_ERR_OVERLAP. Inputs may overlap inputs.
 *
 * POINTERS
 *   NULL where it is not allowed, misalignment, a length that overflows the
 *   address space or exceeds its limit, and overlap are found and named. That a
 *   non-NULL aligned pointer points at that many readable (writable) bytes
 *   cannot be checked and is the caller's promise. A NULL array is allowed when
 *   its count is 0.
 *
 * FAILURE
 *   A bug inside (a Rust panic) never crosses the boundary: the call returns
 *   MORTISE_ERR_PANIC and from then on every call on that handle returns
 *   MORTISE_ERR_POISONED, except mortise_cluster_free(). Other handles are not
 *   affected. Rust's own panic message goes to stderr. Build a new cluster,
 *   sync it in full and go on.
 *   The process does abort, and no library can help it, when
 *   - the allocator fails inside (every input has a limit and large buffers are
 *     reserved fallibly, MORTISE_ERR_OUT_OF_MEMORY; small ones are not),
 *   - the stack overflows (no call recurses or needs more than 256 KiB), or
 *   - a panic occurs while another panic is being unwound.
 *   The library installs no signal handler, reads no file, no environment (Rust's
 *   panic message heeds RUST_BACKTRACE) and no clock except to bound waiting for a
 *   lock, and has no global state but its table of handles. It starts no thread
 *   unless mortise_config.threads allows it. Then mortise_score() does when it has
 *   to look at every node anew, 1024 nodes or more a thread; they end before the
 *   call returns, and the answer is the same with any number of them.
 */
#ifndef MORTISE_H
#define MORTISE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#define MORTISE_STATIC_ASSERT(condition, text) static_assert(condition, text)
#else
#define MORTISE_STATIC_ASSERT(condition, text) _Static_assert(condition, text)
#endif

/* ------------------------------------------------------------------ version */

/* Major in the upper, minor in the lower 16 bits. Another major, or a caller's
 * minor above the library's, is refused by the handshake. */
#define MORTISE_ABI_VERSION 0x00010004u

/* ----------------------------------------------------------------- statuses */

typedef int32_t mortise_status;

#define MORTISE_OK 0
/* A pointer that must not be NULL is. */
#define MORTISE_ERR_NULL_POINTER 1
/* A pointer is not aligned for its type. */
#define MORTISE_ERR_MISALIGNED 2
/* A length, count, stride or index range does not fit what it describes. */
#define MORTISE_ERR_BAD_LENGTH 3
/* An output overlaps an input or another output. */
#define MORTISE_ERR_OVERLAP 4
/* Header and library are of different versions. */
#define MORTISE_ERR_ABI_MISMATCH 5
/* struct_size or a stride is out of range. */
#define MORTISE_ERR_BAD_STRUCT_SIZE 6
/* The handle was never given out, or was freed. */
#define MORTISE_ERR_BAD_HANDLE 7
/* A node reference is of a node that was removed. */
#define MORTISE_ERR_STALE_NODE 8
/* A node reference was never given out by this cluster. */
#define MORTISE_ERR_UNKNOWN_NODE 9
/* A node key or reference occurs twice, or the key is known already. */
#define MORTISE_ERR_DUPLICATE_NODE 10
/* A value is outside its range or contradicts another. */
#define MORTISE_ERR_INVALID_VALUE 11
/* A limit (MORTISE_MAX_*) is exceeded. */
#define MORTISE_ERR_LIMIT_EXCEEDED 12
/* An output buffer is too small; mortise_error.required says what it needs. */
#define MORTISE_ERR_BUFFER_TOO_SMALL 13
/* Another call holds the cluster; try again. */
#define MORTISE_ERR_BUSY 14
/* An earlier call on this handle panicked; free it and build a new one. */
#define MORTISE_ERR_POISONED 15
/* This call panicked: a bug in the library. */
#define MORTISE_ERR_PANIC 16
/* A large buffer could not be reserved. */
#define MORTISE_ERR_OUT_OF_MEMORY 17
/* A flag, mode or field this library does not have, or that is switched off. */
#define MORTISE_ERR_NOT_SUPPORTED 18

/* Why a node does not take a pod. The numbers are stable. */
#define MORTISE_REASON_NONE 0
/* The node's GPU model is not among the allowed models. */
#define MORTISE_REASON_MODEL_MISMATCH 1
/* The pod asks for GPU and the node has no device. */
#define MORTISE_REASON_NO_GPU 2
#define MORTISE_REASON_INSUFFICIENT_CPU 3
#define MORTISE_REASON_INSUFFICIENT_MEMORY 4
/* Enough GPU is idle for the pod, but not as that many fully free cards. */
#define MORTISE_REASON_INSUFFICIENT_WHOLE_CARDS 5
/* Enough GPU is idle for the share, but no one card has that much free. */
#define MORTISE_REASON_NO_CARD_FITS_SHARE 6
/* Less GPU is idle on the whole node than the pod asks for. */
#define MORTISE_REASON_INSUFFICIENT_GPU 7
/* The pod asks for a share and the node is without MORTISE_NODE_OFFERS_SHARES. */
#define MORTISE_REASON_SHARES_NOT_OFFERED 8
/* The node has fewer cards than the pod asks for, used or not. */
#define MORTISE_REASON_TOO_FEW_CARDS 9
/* There is no node. */
#define MORTISE_REASON_NO_NODE 10
/* No card of the node offers the MIG profile. */
#define MORTISE_REASON_NO_MIG_PROFILE 11
/* A card has as many memory slices free, but no place where the MIG profile may start. */
#define MORTISE_REASON_NO_LEGAL_MIG_START 12
/* No card has as many memory slices free as the MIG profile needs. */
#define MORTISE_REASON_INSUFFICIENT_MIG_SLICES 13
/* There are places for some of the MIG instances, but not for all. */
#define MORTISE_REASON_INSUFFICIENT_MIG_INSTANCES 14
/* More than the numbers in use. */
#define MORTISE_MAX_REASONS 32

/* ------------------------------------------------------------------- limits */

#define MORTISE_MAX_HANDLES 256
#define MORTISE_MAX_NODES 131072
#define MORTISE_MAX_PODS_PER_NODE 1024
#define MORTISE_MAX_PODS_PER_SYNC 4194304
#define MORTISE_MAX_GPUS_PER_NODE 16
#define MORTISE_MILLI_PER_GPU 1000
#define MORTISE_MAX_MODELS 64
#define MORTISE_MAX_MODEL_NAME_BYTES 63
#define MORTISE_MAX_STRATEGY_BYTES 63
#define MORTISE_MAX_MIX_KINDS 512
#define MORTISE_MAX_MEMO_BYTES 17179869184
#define MORTISE_MAX_STATE_BYTES 17179869184
#define MORTISE_MAX_LEARNED_BYTES 16777216
#define MORTISE_MAX_POD_FACTS 2097152
#define MORTISE_MAX_BUDGET_REFS 8388608
#define MORTISE_MAX_GROUP_PODS 4096
#define MORTISE_MAX_DECLARED_SECONDS 2592000
#define MORTISE_MAX_THREADS 64
#define MORTISE_MAX_MIG_KINDS 4    /* different profiles that one pod may ask for */
#define MORTISE_MAX_MIG_PER_POD 16 /* instances that one pod may ask for or hold */
#define MORTISE_MAX_STRUCT_SIZE 4096
#define MORTISE_MAX_LOCK_WAIT_MILLISECONDS 60000
#define MORTISE_DEFAULT_LOCK_WAIT_MILLISECONDS 1000

/* -------------------------------------------------------------------- types */

/* A cluster: slot and generation. 0 is never given out. */
typedef uint64_t mortise_handle;

/* A node of one cluster: slot and generation. A removed node's reference is
 * never given to another node. */
typedef uint64_t mortise_node_ref;
#define MORTISE_NODE_REF_NONE 0u

#define MORTISE_MODEL_NONE UINT32_MAX       /* a node without GPUs or model */
#define MORTISE_MODELS_ANY UINT64_MAX       /* no constraint; 0 allows none */
#define MORTISE_CHECKPOINT_NONE INT64_MIN   /* no checkpoint known */

#define MORTISE_TIER_INFERENCE 0
#define MORTISE_TIER_TRAINING 1
#define MORTISE_TIER_BATCH 2

/* Filled by every call that gets one. */
typedef struct mortise_error {
    uint32_t struct_size;
    mortise_status status;  /* what the call returned */
    uint64_t required;      /* BUFFER_TOO_SMALL: capacity needed; else 0 */
    char message[256];      /* UTF-8, NUL-terminated, names field and value;
                               empty after MORTISE_OK; cut to struct_size */
} mortise_error;
#define MORTISE_ERROR_MIN_SIZE 16

/* What the caller was compiled with. */
typedef struct mortise_handshake_info {
    uint32_t struct_size;
    uint32_t abi_version;
    uint32_t error_size;
    uint32_t config_size;
    uint32_t mix_kind_size;
    uint32_t node_delta_size;
    uint32_t pod_record_size;
    uint32_t pod_request_size;
    uint32_t sync_request_size;
    uint32_t sync_result_size;
    uint32_t score_request_size;
    uint32_t node_score_size;
    uint32_t decision_size;
    uint32_t node_reason_size;
    uint32_t fragmentation_report_size;
    uint32_t stats_report_size;
    uint32_t pod_facts_size;
    uint32_t gang_size;
    uint32_t preempt_request_size;
    uint32_t victim_size;
    uint32_t plan_placement_size;
    uint32_t runner_up_size;
    uint32_t blocked_size;
    uint32_t checkpoint_warning_size;
    uint32_t plan_buffers_size;
    uint32_t plan_size;
    uint32_t mig_place_size;
    uint32_t explanation_size;
} mortise_handshake_info;
#define MORTISE_HANDSHAKE_INFO_MIN_SIZE 104

/* A kind of pod with its frequency, for MORTISE_MIX_FIXED. Array element. */
typedef struct mortise_mix_kind {
    int64_t cpu_milli;
    uint64_t allowed_models; /* bit i = the i-th model to be interned, or ANY */
    uint64_t count;          /* how often; at least 1 */
    uint16_t gpu_count;      /* as in mortise_pod_request */
    uint16_t gpu_milli;
    uint32_t reserved;
} mortise_mix_kind;
#define MORTISE_MIX_KIND_MIN_SIZE 32

/* mortise_config.mix_mode */
#define MORTISE_MIX_LEARNED 0u /* from the arrivals of mortise_sync */
#define MORTISE_MIX_FIXED 1u   /* mix_kinds; arrivals are not counted */

/* mortise_config.flags */
#define MORTISE_CONFIG_SKIP_CPU_ONLY 1u     /* do not rank nodes for pods without GPU */
#define MORTISE_CONFIG_ALLOW_DEBUG_PANIC 2u /* mortise_debug_panic works */
#define MORTISE_CONFIG_ALLOW_DEBUG_HOLD 4u  /* mortise_debug_hold works */

typedef struct mortise_config {
    uint32_t struct_size;
    uint32_t flags;                  /* MORTISE_CONFIG_* */
    uint64_t seed;                   /* of the order among equal nodes */
    const char *strategy;            /* NULL: expected-stranding. Not NUL-terminated. Names:
                                        mortise_strategy_name */
    size_t strategy_length;          /* bytes */
    uint64_t memo_bytes;             /* bound of memo tables; 0: 256 MiB */
    uint32_t lock_wait_milliseconds; /* 0: MORTISE_DEFAULT_LOCK_WAIT_MILLISECONDS */
    uint32_t mix_mode;               /* MORTISE_MIX_* */
    const mortise_mix_kind *mix_kinds; /* MORTISE_MIX_FIXED only */
    size_t mix_kind_count;           /* 1..MORTISE_MAX_MIX_KINDS for FIXED, else 0 */
    uint32_t mix_kind_stride;        /* sizeof(mortise_mix_kind) */
    uint32_t threads;                /* that may share one call, the caller's among them: 0 or
                                        1 is none but the caller's */
    const char *mig_strategy;        /* as strategy, for card and start of MIG instances. Names:
                                        mortise_mig_strategy_name */
    size_t mig_strategy_length;      /* bytes */
} mortise_config;
#define MORTISE_CONFIG_MIN_SIZE 16

/* MIG. A card in MIG mode is a row of memory slices; an instance of a profile
 * takes some of them from a legal start on. MIG models, profiles (by name, such
 * as 1g.10gb or 1g.10gb+me) and the places of a model (a profile at a start) have
 * numbers, which mortise_mig_model_name, mortise_mig_profile_name and
 * mortise_mig_place_at tell. They are those of the library: look them up, do not
 * store them. */

/* So many instances of one profile; count 0 is none. */
typedef struct mortise_mig_kind {
    uint8_t profile;
    uint8_t count;
} mortise_mig_kind;

/* An instance on a node. */
typedef struct mortise_mig_instance {
    uint8_t device; /* the card */
    uint8_t place;  /* of the card's model */
} mortise_mig_instance;

/* A place of a MIG model. */
typedef struct mortise_mig_place {
    uint32_t struct_size;
    uint8_t profile;
    uint8_t start;  /* first memory slice */
    uint8_t slices; /* memory slices */
    uint8_t media;  /* 1: has the media engines (+me), at most one instance of a card; else 0 */
} mortise_mig_place;
#define MORTISE_MIG_PLACE_MIN_SIZE 8

/* mortise_node_delta.flags */
#define MORTISE_NODE_OFFERS_SHARES 1u /* shares of a card may be placed here; without it the
                                         node takes whole cards only */

/* A node that is new or has changed. Array element. */
typedef struct mortise_node_delta {
    mortise_node_ref node_ref;   /* from an earlier sync; 0: by node_key, new if unknown */
    uint64_t node_key;           /* the caller's stable identity of the node, e.g. a hash
                                    of its name; unique, and it breaks ties */
    int64_t generation;          /* of the caller's node object; kept and compared for
                                    equality only */
    int64_t cpu_free_milli;      /* allocatable minus requested; may be negative */
    int64_t memory_free_bytes;   /* allocatable minus requested; may be negative */
    int64_t cpu_allocatable_milli;    /* >= 0 */
    int64_t memory_allocatable_bytes; /* >= 0 */
    uint32_t model_id;           /* of mortise_model_intern, or MORTISE_MODEL_NONE */
    uint32_t first_pod;          /* the node's pods are pods[first_pod] ... (ignored if none) */
    uint32_t pod_count;          /* ... this many; upserts take pods in order, without gaps */
    uint16_t gpu_count;          /* devices, healthy or not: 0..16 */
    uint16_t flags;              /* MORTISE_NODE_* */
    uint16_t gpu_capacity_milli[MORTISE_MAX_GPUS_PER_NODE]; /* 0..1000 each; 0 from
                                    gpu_count on, and for cards in MIG mode */
    uint8_t mig_model[MORTISE_MAX_GPUS_PER_NODE]; /* MIG model of a card in MIG mode; else 0 */
    uint32_t mig_places[MORTISE_MAX_GPUS_PER_NODE]; /* bit i: the card offers place i of its MIG
                                    model. Instances that exist do not overlap; where they
                                    are made when asked for, places may. A place is free
                                    while none of its slices is in use */
} mortise_node_delta;
#define MORTISE_NODE_DELTA_MIN_SIZE 104

/* mortise_pod_record.flags */
#define MORTISE_POD_TERMINATING 1 /* still holds what it holds */
#define MORTISE_POD_FOREIGN 2     /* bound by another scheduler */
#define MORTISE_POD_NO_LEARN 4    /* not a sample of the mix: DaemonSet, placeholder */
#define MORTISE_POD_RESERVATION 8 /* hold of a nominated pod */

/* A pod on a node. Array element. gpu_count and gpu_milli as in
 * mortise_pod_request. Its cards are those of device_mask and unknown_cards
 * more whose identity is not known; together gpu_count. */
typedef struct mortise_pod_record {
    uint64_t uid_hi;
    uint64_t uid_lo;
    int64_t cpu_milli;          /* >= 0 */
    int64_t memory_bytes;       /* >= 0 */
    int64_t start_seconds;
    int64_t checkpoint_seconds; /* last checkpoint, or MORTISE_CHECKPOINT_NONE */
    uint64_t allowed_models;    /* bit set of model ids, or MORTISE_MODELS_ANY */
    int32_t priority;
    uint16_t gpu_count;
    uint16_t gpu_milli;
    uint16_t device_mask;
    uint16_t unknown_cards;
    uint8_t tier;               /* MORTISE_TIER_* */
    uint8_t flags;              /* MORTISE_POD_* */
    uint16_t mig_count;         /* MIG instances that are known: 0..MORTISE_MAX_MIG_PER_POD */
    mortise_mig_kind mig_unknown[MORTISE_MAX_MIG_KINDS]; /* instances it holds of which only the
                                   profile is known */
    mortise_mig_instance mig[MORTISE_MAX_MIG_PER_POD]; /* the known ones, in any order; zero
                                   from mig_count on */
} mortise_pod_record;
#define MORTISE_POD_RECORD_MIN_SIZE 72

/* mortise_pod_request.flags */
#define MORTISE_REQUEST_NO_LEARN 1u /* as an arrival it does not count for the mix */

/* What a pod asks for. GPU: gpu_count 0 and gpu_milli 0 is none; gpu_count
 * 1..16 with gpu_milli 1000 is whole cards; gpu_count 1 with gpu_milli 1..999
 * is a share of one card. Anything else is MORTISE_ERR_INVALID_VALUE. */
typedef struct mortise_pod_request {
    uint32_t struct_size;
    uint32_t flags;          /* MORTISE_REQUEST_* */
    uint64_t uid_hi;         /* the pod's UID, 128 bits; counts once for the mix */
    uint64_t uid_lo;
    int64_t cpu_milli;       /* >= 0 */
    int64_t memory_bytes;    /* >= 0 */
    uint64_t allowed_models; /* bit set of model ids, or MORTISE_MODELS_ANY */
    int32_t priority;
    uint16_t gpu_count;
    uint16_t gpu_milli;      /* per device */
    uint8_t tier;            /* MORTISE_TIER_* */
    uint8_t reserved[7];
    mortise_mig_kind mig[MORTISE_MAX_MIG_KINDS]; /* MIG instances, on one node, beside the GPUs */
} mortise_pod_request;
#define MORTISE_POD_REQUEST_MIN_SIZE 64

/* mortise_sync_request.flags */
#define MORTISE_SYNC_FULL 1u /* nodes that are not in upserts are removed */

typedef struct mortise_sync_request {
    uint32_t struct_size;
    uint32_t flags;                    /* MORTISE_SYNC_* */
    const mortise_node_delta *upserts; /* replace the node and all its pods */
    size_t upsert_count;               /* at most MORTISE_MAX_NODES */
    const mortise_pod_record *pods;
    size_t pod_count;                  /* at most MORTISE_MAX_PODS_PER_SYNC */
    uint32_t upsert_stride;            /* sizeof(mortise_node_delta); 0 only without upserts */
    uint32_t pod_stride;               /* sizeof(mortise_pod_record); 0 only without pods */
    const mortise_node_ref *removals;
    size_t removal_count;              /* at most MORTISE_MAX_NODES */
    const mortise_pod_request *arrival; /* NULL, or the pod that is about to be
                                          scheduled: a sample of the mix */
} mortise_sync_request;
#define MORTISE_SYNC_REQUEST_MIN_SIZE 48

typedef struct mortise_sync_result {
    uint32_t struct_size;
    uint32_t node_count;         /* nodes in the cluster now */
    uint64_t pod_count;          /* pods on them */
    uint32_t added_count;        /* upserts that were new nodes */
    uint32_t changed_count;      /* known nodes whose content really changed */
    uint32_t removed_count;      /* by removals or MORTISE_SYNC_FULL */
    uint32_t arrival_counted;    /* 1: arrival was a new sample of the mix; else 0 */
    uint64_t overcommitted_milli; /* GPU that pods hold beyond capacity, whole cluster */
} mortise_sync_result;
#define MORTISE_SYNC_RESULT_MIN_SIZE 16

/* mortise_score_request.flags */
#define MORTISE_SCORE_ALL_NODES 1u /* every node; candidates must be empty */

typedef struct mortise_score_request {
    uint32_t struct_size;
    uint32_t flags;                  /* MORTISE_SCORE_* */
    const mortise_pod_request *pod;
    const mortise_node_ref *candidates; /* in any order; one listed twice counts twice */
    size_t candidate_count;          /* at most MORTISE_MAX_NODES; 0: nothing fits */
    uint32_t score_stride;           /* sizeof(mortise_node_score); 0 only without out_scores */
    uint32_t reserved;
    uint64_t tie_salt;               /* 0: equal nodes keep one seeded order; another value
                                        for each decision: in random order */
} mortise_score_request;
#define MORTISE_SCORE_REQUEST_MIN_SIZE 40

/* A candidate's score. Array element. */
typedef struct mortise_node_score {
    mortise_node_ref node_ref;
    int64_t score;       /* absolute, higher is better; INT64_MIN: does not fit */
    uint16_t devices;    /* the devices the pod would get */
    uint16_t reason;     /* MORTISE_REASON_*; NONE if it fits */
    uint32_t reserved;
} mortise_node_score;
#define MORTISE_NODE_SCORE_MIN_SIZE 24

#define MORTISE_CANDIDATE_NONE UINT32_MAX

typedef struct mortise_decision {
    uint32_t struct_size;
    uint32_t feasible_count;    /* candidates that fit */
    mortise_node_ref node_ref;  /* the best; MORTISE_NODE_REF_NONE if nothing fits */
    int64_t score;              /* of the best; INT64_MIN if nothing fits */
    uint32_t candidate_index;   /* of the best in candidates; MORTISE_CANDIDATE_NONE if
                                   nothing fits, or with MORTISE_SCORE_ALL_NODES */
    uint16_t devices;           /* the devices it gets */
    uint16_t mig_count;         /* MIG instances it gets */
    mortise_mig_instance mig[MORTISE_MAX_MIG_PER_POD]; /* which; zero from mig_count on */
} mortise_decision;
#define MORTISE_DECISION_MIN_SIZE 16

/* Why a node does not take a pod, with figures for a sentence. The unit follows
 * the reason: milli-cores, bytes, GPU milli, cards (INSUFFICIENT_WHOLE_CARDS,
 * NO_GPU, TOO_FEW_CARDS), MIG instances (NO_MIG_PROFILE,
 * INSUFFICIENT_MIG_INSTANCES) or memory slices of one card (NO_LEGAL_MIG_START,
 * INSUFFICIENT_MIG_SLICES). Array element. */
typedef struct mortise_node_reason {
    mortise_node_ref node_ref;
    int64_t need;         /* asked for; 0 where there is nothing to count */
    int64_t have;         /* free; may be negative */
    int64_t largest_free; /* NO_CARD_FITS_SHARE: free milli of the freest card; else 0 */
    uint16_t reason;      /* MORTISE_REASON_*; never NONE */
    uint16_t reserved16;
    uint32_t reserved;
} mortise_node_reason;
#define MORTISE_NODE_REASON_MIN_SIZE 40

/* What candidates together have for a pod. GPU is counted on those with an
 * allowed model, and for a share only where shares are offered, whatever CPU and
 * memory say. */
typedef struct mortise_explanation {
    uint32_t struct_size;
    uint32_t node_count;      /* candidates */
    uint32_t feasible_count;  /* of them that take the pod */
    uint32_t gpu_node_count;  /* that have GPUs for it, free or not, */
    uint32_t free_node_count; /* that have any of what free_cards (whole cards) or free_milli (a
                                 share) counts */
    uint32_t free_cards;      /* wholly free cards */
    uint64_t free_milli;      /* free GPU, those included */
    mortise_node_ref largest_node; /* where the largest hole is; NONE without gpu_node_count */
    uint32_t largest_hole;    /* whole cards: free ones of one node; a share: free milli of one card */
    uint32_t reserved;
    uint32_t reason_counts[MORTISE_MAX_REASONS]; /* by MORTISE_REASON_*: candidates that do not
                                 take the pod for it */
    char text[256];           /* UTF-8, NUL-terminated: "8 GPUs free on 5 nodes, largest hole 3"; ""
                                 for a pod without GPUs */
} mortise_explanation;
#define MORTISE_EXPLANATION_MIN_SIZE 432

/* No gang, no tenant. */
#define MORTISE_INDEX_NONE UINT32_MAX
/* mortise_pod_facts.save_seconds: does not save when told to stop. */
#define MORTISE_SAVES_NEVER UINT32_MAX

/* mortise_pod_facts.flags */
#define MORTISE_FACTS_CONSENT 1u /* may be evicted although another scheduler bound it */

/* What planning must know of a running pod beyond its record. Array element.
 * A pod that is not listed has no gang, tenant or budget, was never evicted,
 * does not save when told to stop, and takes its times from the request. */
typedef struct mortise_pod_facts {
    uint64_t uid_hi;            /* each pod once; unknown pods are ignored */
    uint64_t uid_lo;
    uint32_t gang;              /* index in gangs, or MORTISE_INDEX_NONE */
    uint32_t tenant;            /* index in tenants, or MORTISE_INDEX_NONE */
    uint32_t first_budget;      /* the pod's disruption budgets are those that */
    uint32_t budget_count;      /* budget_refs[first_budget] ... name */
    uint32_t unsaved_evictions; /* of this job since it last saved */
    uint32_t save_seconds;      /* from the signal until it has saved, or MORTISE_SAVES_NEVER */
    uint32_t restart_seconds;   /* from its next start until it makes progress again */
    uint32_t grace_seconds;     /* from the signal until it is killed */
    uint32_t flags;             /* MORTISE_FACTS_* */
    uint32_t reserved;
} mortise_pod_facts;
#define MORTISE_POD_FACTS_MIN_SIZE 56

/* mortise_gang.flags */
#define MORTISE_GANG_WHOLE 1u /* all members or none; else members beyond min_members may go alone */

/* A gang of running pods; its members are the pods whose facts name it. Array
 * element. */
typedef struct mortise_gang {
    uint32_t flags;       /* MORTISE_GANG_* */
    uint32_t min_members; /* it cannot run with fewer */
} mortise_gang;
#define MORTISE_GANG_MIN_SIZE 8

/* mortise_preempt_request.flags */
#define MORTISE_PREEMPT_ALL_NODES 1u    /* every node; candidates and domains must be empty */
#define MORTISE_PREEMPT_HARD_BUDGETS 2u /* never exceed a disruption budget; else only before
                                           all other costs */

typedef struct mortise_preempt_request {
    uint32_t struct_size;
    uint32_t flags;                 /* MORTISE_PREEMPT_* */
    int64_t now_seconds;            /* lost work is counted up to here */
    const mortise_pod_request *pods; /* that need room; one tier and one priority. The
                                       stride says their size, struct_size is not read */
    size_t pod_count;               /* mortise_preempt: 1; group: 1..MORTISE_MAX_GROUP_PODS */
    const mortise_node_ref *candidates; /* nodes that may be used, in any order */
    size_t candidate_count;         /* at most MORTISE_MAX_NODES */
    const uint32_t *domains;        /* group: NULL, or one number per candidate: all pods come
                                       into nodes of one number */
    const mortise_pod_facts *facts; /* in any order; fastest in the order of the nodes' pods */
    size_t fact_count;              /* at most MORTISE_MAX_POD_FACTS */
    const mortise_gang *gangs;
    size_t gang_count;              /* at most MORTISE_MAX_POD_FACTS */
    const uint32_t *budgets;        /* evictions that each disruption budget still allows */
    size_t budget_count;            /* at most MORTISE_MAX_POD_FACTS */
    const uint32_t *budget_refs;    /* indices in budgets; see mortise_pod_facts */
    size_t budget_ref_count;        /* at most MORTISE_MAX_BUDGET_REFS */
    const uint64_t *tenants;        /* GPU milli that the guarantee may protect per tenant */
    size_t tenant_count;            /* at most MORTISE_MAX_POD_FACTS */
    uint32_t pod_stride;            /* sizeof(mortise_pod_request) */
    uint32_t fact_stride;           /* sizeof(mortise_pod_facts); 0 only without facts */
    uint32_t gang_stride;           /* sizeof(mortise_gang); 0 only without gangs */
    uint32_t guarantee_after;       /* a job evicted this often without having saved counts as
                                       training; 0: never */
    uint64_t guarantee_milli;       /* for pods without tenant, together; UINT64_MAX: no bound */
    int64_t guarantee_lost_milli_gpu_seconds; /* a pod that never saved and would lose this much
                                       holds the guarantee before its first eviction; 0: none */
    uint64_t expansions;            /* victim sets to look at before the best so far is taken;
                                       0: 100,000 */
    uint32_t ratio_permille;        /* GPU evicted per 1000 asked for, a share counting as one
                                       card; 0: no limit */
    uint32_t restart_seconds;       /* of pods without facts */
    uint32_t grace_seconds;         /* of pods without facts */
    uint32_t reserved;
} mortise_preempt_request;
#define MORTISE_PREEMPT_REQUEST_MIN_SIZE 192

/* mortise_victim.kind */
#define MORTISE_VICTIM_POD 1         /* a pod of no gang */
#define MORTISE_VICTIM_SURPLUS 2     /* a member its gang can do without */
#define MORTISE_VICTIM_GANG 3        /* a member of a gang that goes whole */
#define MORTISE_VICTIM_TERMINATING 4 /* going already: wait for it, do not delete it */

/* A pod that must be gone before the plan's pods start. Array element. */
typedef struct mortise_victim {
    uint64_t uid_hi;
    uint64_t uid_lo;
    mortise_node_ref node_ref;
    int64_t lost_milli_gpu_seconds; /* work that it loses */
    uint32_t gpu_milli;             /* that it holds */
    uint32_t gang;                  /* index in gangs, or MORTISE_INDEX_NONE */
    uint8_t kind;                   /* MORTISE_VICTIM_* */
    uint8_t counts_as_training;     /* 1: tier 1, or protected by the guarantee; else 0 */
    uint16_t reserved16;
    uint32_t reserved;
} mortise_victim;
#define MORTISE_VICTIM_MIN_SIZE 48

/* Where a pod comes once the victims are gone. Array element. */
typedef struct mortise_plan_placement {
    mortise_node_ref node_ref;
    uint16_t devices;
    uint16_t reserved16;
    uint32_t reserved;
} mortise_plan_placement;
#define MORTISE_PLAN_PLACEMENT_MIN_SIZE 16

/* What a plan costs; compared field by field in this order, then by node order. */
typedef struct mortise_plan_cost {
    uint32_t budget_violations;     /* evictions beyond what disruption budgets allow */
    uint32_t training_units;        /* units of tier 1 or protected by the guarantee */
    int64_t lost_milli_gpu_seconds;
    uint32_t units;                 /* pods, surplus members, gangs */
    uint32_t reserved;
    int64_t stranded_milli;         /* change of the expected stranded GPU on the plan's nodes */
} mortise_plan_cost;

/* mortise_runner_up.lost_by: the first thing in which it is worse. */
#define MORTISE_LOST_BY_BUDGET_VIOLATIONS 1
#define MORTISE_LOST_BY_TRAINING_UNITS 2
#define MORTISE_LOST_BY_LOST_WORK 3
#define MORTISE_LOST_BY_UNITS 4
#define MORTISE_LOST_BY_STRANDED 5
#define MORTISE_LOST_BY_NODE_ORDER 6

/* A node that was not chosen, and why. Array element. */
typedef struct mortise_runner_up {
    mortise_node_ref node_ref;
    mortise_plan_cost cost;
    uint32_t lost_by; /* MORTISE_LOST_BY_* */
    uint32_t reserved;
} mortise_runner_up;
#define MORTISE_RUNNER_UP_MIN_SIZE 48

/* Nodes that stay closed for one reason even if everything that may go went.
 * Array element. */
typedef struct mortise_blocked {
    int64_t need;               /* in the reason's unit, see mortise_node_reason */
    int64_t most;               /* the most that one of them could offer */
    uint64_t fixed_least_milli; /* GPU on one node that may not be evicted: least, */
    uint64_t fixed_most_milli;  /* most */
    uint32_t node_count;
    uint16_t reason;            /* MORTISE_REASON_* */
    uint16_t reserved16;
} mortise_blocked;
#define MORTISE_BLOCKED_MIN_SIZE 40

/* mortise_checkpoint_warning.fault */
#define MORTISE_CHECKPOINT_IN_FUTURE 1u
#define MORTISE_CHECKPOINT_BEFORE_START 2u

/* A checkpoint time that cannot be true and was ignored. Array element. */
typedef struct mortise_checkpoint_warning {
    uint64_t uid_hi;
    uint64_t uid_lo;
    uint32_t fault; /* MORTISE_CHECKPOINT_* */
    uint32_t reserved;
} mortise_checkpoint_warning;
#define MORTISE_CHECKPOINT_WARNING_MIN_SIZE 24

/* The caller's memory for the lists of a plan; the arrays are outputs. NULL is
 * allowed where the capacity is 0. */
typedef struct mortise_plan_buffers {
    uint32_t struct_size;
    uint32_t victim_stride;               /* sizeof(mortise_victim) */
    mortise_victim *victims;              /* BUFFER_TOO_SMALL if they do not all fit */
    size_t victim_capacity;
    mortise_plan_placement *placements;   /* one per pod, in their order; BUFFER_TOO_SMALL */
    size_t placement_capacity;
    mortise_runner_up *runner_ups;        /* as many as there is room for, best first: each costs
                                             work. At most MORTISE_MAX_NODES */
    size_t runner_up_capacity;
    mortise_blocked *blocked;             /* cut to the room there is */
    size_t blocked_capacity;
    mortise_checkpoint_warning *warnings; /* cut to the room there is */
    size_t warning_capacity;
    char *text;                           /* why there is no plan, UTF-8, NUL-terminated, cut; ""
                                             if there is one */
    size_t text_capacity;
    uint32_t placement_stride;
    uint32_t runner_up_stride;
    uint32_t blocked_stride;
    uint32_t warning_stride;
} mortise_plan_buffers;
#define MORTISE_PLAN_BUFFERS_MIN_SIZE 120

/* mortise_plan.flags */
#define MORTISE_PLAN_FOUND 1u   /* there is a plan; without victims if no eviction is needed */
#define MORTISE_PLAN_OPTIMAL 2u /* nothing better exists */

typedef struct mortise_plan {
    uint32_t struct_size;
    uint32_t flags;              /* MORTISE_PLAN_* */
    uint32_t victim_count;       /* elements written, */
    uint32_t placement_count;    /* here */
    uint32_t runner_up_count;    /* and */
    uint32_t blocked_count;      /* in the */
    uint32_t warning_count;      /* next */
    uint32_t guaranteed_count;   /* pods that hold the progress guarantee now */
    mortise_plan_cost cost;
    uint64_t evicted_milli;      /* GPU of the victims, without those that were terminating */
    uint64_t expansions;         /* victim sets that were looked at */
    uint64_t over_ratio_evicted_milli;   /* no plan: without the ratio limit this would have */
    uint64_t over_ratio_requested_milli; /* been evicted for that much; else 0 */
    uint32_t over_budget_violations; /* no plan: hard budgets would have been exceeded this often */
    uint32_t placed_count;           /* no plan for the group: pods that found room */
} mortise_plan;
#define MORTISE_PLAN_MIN_SIZE 104

/* GPU of the whole cluster, in milli (1000 = one card). */
typedef struct mortise_fragmentation_report {
    uint32_t struct_size;
    uint32_t reserved;
    int64_t capacity_milli;  /* of all healthy devices */
    int64_t idle_milli;      /* free of it */
    int64_t fragment_milli;  /* fragment amount: idle GPU a typical pod cannot use (FGD,
                                Weng et al., USENIX ATC 2023), mean over the mix */
    int64_t stranded_milli;  /* expected to be idle when nothing more fits */
    int64_t mig_slices;      /* memory slices of cards in MIG mode */
    int64_t mig_used_slices; /* of them in use */
    int64_t mig_stranded_milli; /* of cards in MIG mode, expected to be idle when nothing more of
                                the mix of profiles fits */
} mortise_fragmentation_report;
#define MORTISE_FRAGMENTATION_REPORT_MIN_SIZE 16

/* Counters since mortise_cluster_new, except where "now" is said. */
typedef struct mortise_stats_report {
    uint32_t struct_size;
    uint32_t node_count;      /* now */
    uint64_t decisions;
    uint64_t memo_hits;
    uint64_t memo_misses;
    uint64_t memo_bytes;      /* now */
    uint64_t column_hits;     /* decisions that reused a kind's column of costs */
    uint64_t column_misses;
    uint64_t column_bytes;    /* now */
    uint64_t arrivals;        /* distinct pods counted for the mix */
    uint64_t relearns;        /* times the mix was learned anew */
    uint64_t price_epochs;    /* times the scarcity prices were refreshed */
    uint32_t mix_kind_count;  /* kinds in the mix now */
    uint32_t reserved;
} mortise_stats_report;
#define MORTISE_STATS_REPORT_MIN_SIZE 16

/* ------------------------------------------------------------ version calls */

/* The library's version, e.g. "0.1.0". Static. */
const char *mortise_version(void);

/* "MORTISE_ERR_BUSY" and so on; NULL for a number that is not a status. Static. */
const char *mortise_status_name(mortise_status status);

/* "InsufficientCpu" and so on; NULL for a number that is not a reason. Static. */
const char *mortise_reason_name(uint16_t reason);

/* Name of the index-th strategy, the default first; NULL past the end. Static. */
const char *mortise_strategy_name(uint32_t index);

/* Name of a MIG model, such as "h100-80gb". Numbers start at 1; NULL for 0 and
 * past the end. Static. */
const char *mortise_mig_model_name(uint8_t model);

/* Name of a MIG profile, such as "1g.10gb". Numbers start at 0; NULL past the
 * end. Static. */
const char *mortise_mig_profile_name(uint8_t profile);

/* Name of the index-th strategy for MIG instances, the default first; NULL past
 * the end. Static. */
const char *mortise_mig_strategy_name(uint32_t index);

/* A place of a MIG model. Numbers start at 0; INVALID_VALUE past the end. */
mortise_status mortise_mig_place_at(uint8_t model, uint8_t place, mortise_mig_place *out_place,
                                    mortise_error *err);

/* Refuses a caller whose header does not go with this library: call it once at
 * start with mortise_handshake_info_of_header().
 * ABI_MISMATCH: the message names the struct or version with both values. */
mortise_status mortise_handshake(const mortise_handshake_info *info, mortise_error *err);

/* ------------------------------------------------------------ cluster calls */

/* Makes an empty cluster.
 * INVALID_VALUE: unknown strategy, bad mix. LIMIT_EXCEEDED: MORTISE_MAX_HANDLES. */
mortise_status mortise_cluster_new(const mortise_config *config, mortise_handle *out_handle,
                                   mortise_error *err);

/* Gives the handle back; works on a poisoned one. BAD_HANDLE: freed before. */
mortise_status mortise_cluster_free(mortise_handle handle, mortise_error *err);

/* The number of a GPU model: 0, 1, 2 ... in the order of first calls; the same
 * name (1..63 bytes of UTF-8) gives the same number. Only models of nodes need
 * one. LIMIT_EXCEEDED: MORTISE_MAX_MODELS. */
mortise_status mortise_model_intern(mortise_handle handle, const char *name, size_t name_length,
                                    uint32_t *out_model_id, mortise_error *err);

/* --------------------------------------------------------------- sync calls */

/* Brings the cluster to the caller's state: all of the request, or nothing.
 * out_refs gets one reference per upsert, in order (NULL: not wanted). With
 * MORTISE_SYNC_FULL into a new cluster the state is, bit for bit, that of any
 * sequence of syncs which ends in the same nodes and pods. The arrival is
 * counted after nodes and pods were applied.
 * DUPLICATE_NODE, STALE_NODE, UNKNOWN_NODE, BAD_LENGTH (pod range), INVALID_VALUE. */
mortise_status mortise_sync(mortise_handle handle, const mortise_sync_request *request,
                            mortise_node_ref *out_refs, mortise_sync_result *out_result,
                            mortise_error *err);

/* After a restart: counts the bound pods as past arrivals of the mix. */
mortise_status mortise_learn_from_pods(mortise_handle handle, mortise_error *err);

/* -------------------------------------------------------------- score calls */

/* Chooses the best candidate for the pod and its devices there, and gives every
 * candidate's score where out_scores is not NULL (in the order of candidates;
 * with MORTISE_SCORE_ALL_NODES in the library's own order of nodes). Nothing is
 * placed: the pod shows up with a later mortise_sync. "Nothing fits" is
 * MORTISE_OK with node_ref MORTISE_NODE_REF_NONE. No allocation once buffers of
 * this many candidates have been used.
 * STALE_NODE, UNKNOWN_NODE: a candidate. BUFFER_TOO_SMALL: score_capacity is
 * less than candidate_count (the number of nodes). */
mortise_status mortise_score(mortise_handle handle, const mortise_score_request *request,
                             mortise_node_score *out_scores, size_t score_capacity,
                             mortise_decision *out_decision, mortise_error *err);

/* The nodes that do not take the pod, each with the first reason found.
 * With out_reasons NULL and reason_capacity 0 it only counts them. reason_stride
 * is sizeof(mortise_node_reason).
 * BUFFER_TOO_SMALL: at most as many elements as there are nodes are needed. */
mortise_status mortise_reasons(mortise_handle handle, const mortise_pod_request *pod,
                               uint32_t reason_stride, mortise_node_reason *out_reasons,
                               size_t reason_capacity, size_t *out_reason_count,
                               mortise_error *err);

/* What there is for the pod on the candidates; with candidates NULL and
 * candidate_count 0 on every node. One listed twice counts twice.
 * STALE_NODE, UNKNOWN_NODE: a candidate. */
mortise_status mortise_explain(mortise_handle handle, const mortise_pod_request *pod,
                               const mortise_node_ref *candidates, size_t candidate_count,
                               mortise_explanation *out_explanation, mortise_error *err);

/* ----------------------------------------------------------- preempt calls */

/* The cheapest evictions that make room for one pod on one of the candidates:
 * who goes, where the pod comes, and why the next best nodes were not taken; or
 * why nothing helps. Nothing is evicted or placed. Pods of the inference tier,
 * of a tier or priority not below the pod's, and those bound by another
 * scheduler without MORTISE_FACTS_CONSENT stay. Removing any victim from the
 * plan would leave the pod without room. "No plan" is MORTISE_OK without
 * MORTISE_PLAN_FOUND.
 * STALE_NODE, UNKNOWN_NODE: a candidate. INVALID_VALUE: facts that name what is
 * not there, a pod listed twice. BUFFER_TOO_SMALL: victims, placements. */
mortise_status mortise_preempt(mortise_handle handle, const mortise_preempt_request *request,
                               const mortise_plan_buffers *buffers, mortise_plan *out_plan,
                               mortise_error *err);

/* As mortise_preempt, for all pods together: all of them fit afterwards, or
 * there is no plan. Never MORTISE_PLAN_OPTIMAL with more than one pod. */
mortise_status mortise_preempt_group(mortise_handle handle, const mortise_preempt_request *request,
                                     const mortise_plan_buffers *buffers, mortise_plan *out_plan,
                                     mortise_error *err);

/* ------------------------------------------------------------- report calls */

mortise_status mortise_fragmentation(mortise_handle handle, mortise_fragmentation_report *out_report,
                                     mortise_error *err);

mortise_status mortise_stats(mortise_handle handle, mortise_stats_report *out_report,
                             mortise_error *err);

/* -------------------------------------------------------------- state calls */

/* 128-bit digest of the cluster state (not of the learned mix): equal for equal
 * nodes, pods and models, however they were synced. */
mortise_status mortise_state_digest(mortise_handle handle, uint64_t *out_high, uint64_t *out_low,
                                    mortise_error *err);

/* The cluster state in canonical order, versioned bytes. With out_bytes NULL and
 * capacity 0 only the length is given. BUFFER_TOO_SMALL. */
mortise_status mortise_state_export(mortise_handle handle, uint8_t *out_bytes, size_t capacity,
                                    size_t *out_length, mortise_error *err);

/* Replaces the cluster state by exported bytes; the learned mix stays, all node
 * references become stale or unknown: sync again with node_ref 0. INVALID_VALUE,
 * LIMIT_EXCEEDED: not such bytes; nothing is changed then. */
mortise_status mortise_state_import(mortise_handle handle, const uint8_t *bytes, size_t length,
                                    mortise_error *err);

/* The learned mix and prices, versioned bytes; as mortise_state_export. */
mortise_status mortise_learned_export(mortise_handle handle, uint8_t *out_bytes, size_t capacity,
                                      size_t *out_length, mortise_error *err);

/* Replaces the learned mix and prices. INVALID_VALUE: not such bytes, or of
 * another version; nothing is changed then. */
mortise_status mortise_learned_import(mortise_handle handle, const uint8_t *bytes, size_t length,
                                      mortise_error *err);

/* -------------------------------------------------------- fault test calls */

/* Panics inside: returns MORTISE_ERR_PANIC and poisons the handle.
 * NOT_SUPPORTED without MORTISE_CONFIG_ALLOW_DEBUG_PANIC. */
mortise_status mortise_debug_panic(mortise_handle handle, mortise_error *err);

/* Holds the cluster as a writing call for that long (at most 60,000).
 * NOT_SUPPORTED without MORTISE_CONFIG_ALLOW_DEBUG_HOLD. */
mortise_status mortise_debug_hold(mortise_handle handle, uint32_t milliseconds, mortise_error *err);

/* --------------------------------------------------- what this header says */

static inline mortise_handshake_info mortise_handshake_info_of_header(void) {
    mortise_handshake_info info;
    info.struct_size = (uint32_t)sizeof(mortise_handshake_info);
    info.abi_version = MORTISE_ABI_VERSION;
    info.error_size = (uint32_t)sizeof(mortise_error);
    info.config_size = (uint32_t)sizeof(mortise_config);
    info.mix_kind_size = (uint32_t)sizeof(mortise_mix_kind);
    info.node_delta_size = (uint32_t)sizeof(mortise_node_delta);
    info.pod_record_size = (uint32_t)sizeof(mortise_pod_record);
    info.pod_request_size = (uint32_t)sizeof(mortise_pod_request);
    info.sync_request_size = (uint32_t)sizeof(mortise_sync_request);
    info.sync_result_size = (uint32_t)sizeof(mortise_sync_result);
    info.score_request_size = (uint32_t)sizeof(mortise_score_request);
    info.node_score_size = (uint32_t)sizeof(mortise_node_score);
    info.decision_size = (uint32_t)sizeof(mortise_decision);
    info.node_reason_size = (uint32_t)sizeof(mortise_node_reason);
    info.fragmentation_report_size = (uint32_t)sizeof(mortise_fragmentation_report);
    info.stats_report_size = (uint32_t)sizeof(mortise_stats_report);
    info.pod_facts_size = (uint32_t)sizeof(mortise_pod_facts);
    info.gang_size = (uint32_t)sizeof(mortise_gang);
    info.preempt_request_size = (uint32_t)sizeof(mortise_preempt_request);
    info.victim_size = (uint32_t)sizeof(mortise_victim);
    info.plan_placement_size = (uint32_t)sizeof(mortise_plan_placement);
    info.runner_up_size = (uint32_t)sizeof(mortise_runner_up);
    info.blocked_size = (uint32_t)sizeof(mortise_blocked);
    info.checkpoint_warning_size = (uint32_t)sizeof(mortise_checkpoint_warning);
    info.plan_buffers_size = (uint32_t)sizeof(mortise_plan_buffers);
    info.plan_size = (uint32_t)sizeof(mortise_plan);
    info.mig_place_size = (uint32_t)sizeof(mortise_mig_place);
    info.explanation_size = (uint32_t)sizeof(mortise_explanation);
    return info;
}

MORTISE_STATIC_ASSERT(sizeof(void *) == 8 && sizeof(size_t) == 8, "mortise.h needs a 64-bit host");

#define MORTISE_ASSERT_SIZE(type, size) \
    MORTISE_STATIC_ASSERT(sizeof(type) == (size), "size of " #type)
#define MORTISE_ASSERT_OFFSET(type, field, offset) \
    MORTISE_STATIC_ASSERT(offsetof(type, field) == (offset), "offset of " #type "." #field)

MORTISE_ASSERT_SIZE(mortise_error, 272);
MORTISE_ASSERT_OFFSET(mortise_error, status, 4);
MORTISE_ASSERT_OFFSET(mortise_error, required, 8);
MORTISE_ASSERT_OFFSET(mortise_error, message, 16);

MORTISE_ASSERT_SIZE(mortise_handshake_info, 112);
MORTISE_ASSERT_OFFSET(mortise_handshake_info, abi_version, 4);
MORTISE_ASSERT_OFFSET(mortise_handshake_info, plan_size, 100);
MORTISE_ASSERT_OFFSET(mortise_handshake_info, mig_place_size, 104);
MORTISE_ASSERT_OFFSET(mortise_handshake_info, stats_report_size, 60);

MORTISE_ASSERT_SIZE(mortise_mix_kind, 32);
MORTISE_ASSERT_OFFSET(mortise_mix_kind, count, 16);
MORTISE_ASSERT_OFFSET(mortise_mix_kind, gpu_count, 24);
MORTISE_ASSERT_OFFSET(mortise_mix_kind, gpu_milli, 26);
MORTISE_ASSERT_OFFSET(mortise_mix_kind, reserved, 28);

MORTISE_ASSERT_SIZE(mortise_config, 88);
MORTISE_ASSERT_OFFSET(mortise_config, flags, 4);
MORTISE_ASSERT_OFFSET(mortise_config, seed, 8);
MORTISE_ASSERT_OFFSET(mortise_config, strategy, 16);
MORTISE_ASSERT_OFFSET(mortise_config, memo_bytes, 32);
MORTISE_ASSERT_OFFSET(mortise_config, lock_wait_milliseconds, 40);
MORTISE_ASSERT_OFFSET(mortise_config, mix_mode, 44);
MORTISE_ASSERT_OFFSET(mortise_config, mix_kinds, 48);
MORTISE_ASSERT_OFFSET(mortise_config, mix_kind_stride, 64);
MORTISE_ASSERT_OFFSET(mortise_config, mig_strategy, 72);

MORTISE_ASSERT_SIZE(mortise_mig_kind, 2);
MORTISE_ASSERT_SIZE(mortise_mig_instance, 2);
MORTISE_ASSERT_SIZE(mortise_mig_place, 8);
MORTISE_ASSERT_OFFSET(mortise_mig_place, media, 7);

MORTISE_ASSERT_SIZE(mortise_node_delta, 184);
MORTISE_ASSERT_OFFSET(mortise_node_delta, node_key, 8);
MORTISE_ASSERT_OFFSET(mortise_node_delta, generation, 16);
MORTISE_ASSERT_OFFSET(mortise_node_delta, memory_allocatable_bytes, 48);
MORTISE_ASSERT_OFFSET(mortise_node_delta, model_id, 56);
MORTISE_ASSERT_OFFSET(mortise_node_delta, pod_count, 64);
MORTISE_ASSERT_OFFSET(mortise_node_delta, gpu_count, 68);
MORTISE_ASSERT_OFFSET(mortise_node_delta, flags, 70);
MORTISE_ASSERT_OFFSET(mortise_node_delta, gpu_capacity_milli, 72);
MORTISE_ASSERT_OFFSET(mortise_node_delta, mig_model, 104);
MORTISE_ASSERT_OFFSET(mortise_node_delta, mig_places, 120);

MORTISE_ASSERT_SIZE(mortise_pod_record, 112);
MORTISE_ASSERT_OFFSET(mortise_pod_record, cpu_milli, 16);
MORTISE_ASSERT_OFFSET(mortise_pod_record, checkpoint_seconds, 40);
MORTISE_ASSERT_OFFSET(mortise_pod_record, allowed_models, 48);
MORTISE_ASSERT_OFFSET(mortise_pod_record, priority, 56);
MORTISE_ASSERT_OFFSET(mortise_pod_record, gpu_count, 60);
MORTISE_ASSERT_OFFSET(mortise_pod_record, device_mask, 64);
MORTISE_ASSERT_OFFSET(mortise_pod_record, tier, 68);
MORTISE_ASSERT_OFFSET(mortise_pod_record, mig_count, 70);
MORTISE_ASSERT_OFFSET(mortise_pod_record, mig_unknown, 72);
MORTISE_ASSERT_OFFSET(mortise_pod_record, mig, 80);

MORTISE_ASSERT_SIZE(mortise_pod_request, 72);
MORTISE_ASSERT_OFFSET(mortise_pod_request, uid_hi, 8);
MORTISE_ASSERT_OFFSET(mortise_pod_request, cpu_milli, 24);
MORTISE_ASSERT_OFFSET(mortise_pod_request, allowed_models, 40);
MORTISE_ASSERT_OFFSET(mortise_pod_request, priority, 48);
MORTISE_ASSERT_OFFSET(mortise_pod_request, gpu_milli, 54);
MORTISE_ASSERT_OFFSET(mortise_pod_request, tier, 56);
MORTISE_ASSERT_OFFSET(mortise_pod_request, mig, 64);

MORTISE_ASSERT_SIZE(mortise_sync_request, 72);
MORTISE_ASSERT_OFFSET(mortise_sync_request, upserts, 8);
MORTISE_ASSERT_OFFSET(mortise_sync_request, pods, 24);
MORTISE_ASSERT_OFFSET(mortise_sync_request, upsert_stride, 40);
MORTISE_ASSERT_OFFSET(mortise_sync_request, removals, 48);
MORTISE_ASSERT_OFFSET(mortise_sync_request, arrival, 64);

MORTISE_ASSERT_SIZE(mortise_sync_result, 40);
MORTISE_ASSERT_OFFSET(mortise_sync_result, node_count, 4);
MORTISE_ASSERT_OFFSET(mortise_sync_result, pod_count, 8);
MORTISE_ASSERT_OFFSET(mortise_sync_result, arrival_counted, 28);
MORTISE_ASSERT_OFFSET(mortise_sync_result, overcommitted_milli, 32);

MORTISE_ASSERT_SIZE(mortise_score_request, 48);
MORTISE_ASSERT_OFFSET(mortise_score_request, pod, 8);
MORTISE_ASSERT_OFFSET(mortise_score_request, candidates, 16);
MORTISE_ASSERT_OFFSET(mortise_score_request, candidate_count, 24);
MORTISE_ASSERT_OFFSET(mortise_score_request, score_stride, 32);
MORTISE_ASSERT_OFFSET(mortise_score_request, tie_salt, 40);

MORTISE_ASSERT_SIZE(mortise_node_score, 24);
MORTISE_ASSERT_OFFSET(mortise_node_score, score, 8);
MORTISE_ASSERT_OFFSET(mortise_node_score, devices, 16);
MORTISE_ASSERT_OFFSET(mortise_node_score, reason, 18);

MORTISE_ASSERT_SIZE(mortise_decision, 64);
MORTISE_ASSERT_OFFSET(mortise_decision, node_ref, 8);
MORTISE_ASSERT_OFFSET(mortise_decision, candidate_index, 24);
MORTISE_ASSERT_OFFSET(mortise_decision, devices, 28);
MORTISE_ASSERT_OFFSET(mortise_decision, mig, 32);

MORTISE_ASSERT_SIZE(mortise_node_reason, 40);
MORTISE_ASSERT_OFFSET(mortise_node_reason, largest_free, 24);
MORTISE_ASSERT_OFFSET(mortise_node_reason, reason, 32);

MORTISE_ASSERT_SIZE(mortise_explanation, 432);
MORTISE_ASSERT_OFFSET(mortise_explanation, free_milli, 24);
MORTISE_ASSERT_OFFSET(mortise_explanation, largest_hole, 40);
MORTISE_ASSERT_OFFSET(mortise_explanation, text, 176);

MORTISE_ASSERT_SIZE(mortise_fragmentation_report, 64);
MORTISE_ASSERT_OFFSET(mortise_fragmentation_report, stranded_milli, 32);
MORTISE_ASSERT_OFFSET(mortise_fragmentation_report, mig_stranded_milli, 56);

MORTISE_ASSERT_SIZE(mortise_stats_report, 96);
MORTISE_ASSERT_OFFSET(mortise_stats_report, memo_bytes, 32);
MORTISE_ASSERT_OFFSET(mortise_stats_report, mix_kind_count, 88);

MORTISE_ASSERT_SIZE(mortise_pod_facts, 56);
MORTISE_ASSERT_OFFSET(mortise_pod_facts, gang, 16);
MORTISE_ASSERT_OFFSET(mortise_pod_facts, unsaved_evictions, 32);
MORTISE_ASSERT_OFFSET(mortise_pod_facts, flags, 48);

MORTISE_ASSERT_SIZE(mortise_gang, 8);
MORTISE_ASSERT_OFFSET(mortise_gang, min_members, 4);

MORTISE_ASSERT_SIZE(mortise_preempt_request, 192);
MORTISE_ASSERT_OFFSET(mortise_preempt_request, pods, 16);
MORTISE_ASSERT_OFFSET(mortise_preempt_request, domains, 48);
MORTISE_ASSERT_OFFSET(mortise_preempt_request, facts, 56);
MORTISE_ASSERT_OFFSET(mortise_preempt_request, tenants, 120);
MORTISE_ASSERT_OFFSET(mortise_preempt_request, pod_stride, 136);
MORTISE_ASSERT_OFFSET(mortise_preempt_request, guarantee_milli, 152);
MORTISE_ASSERT_OFFSET(mortise_preempt_request, ratio_permille, 176);
MORTISE_ASSERT_OFFSET(mortise_preempt_request, grace_seconds, 184);

MORTISE_ASSERT_SIZE(mortise_victim, 48);
MORTISE_ASSERT_OFFSET(mortise_victim, lost_milli_gpu_seconds, 24);
MORTISE_ASSERT_OFFSET(mortise_victim, kind, 40);

MORTISE_ASSERT_SIZE(mortise_plan_placement, 16);
MORTISE_ASSERT_OFFSET(mortise_plan_placement, devices, 8);

MORTISE_ASSERT_SIZE(mortise_plan_cost, 32);
MORTISE_ASSERT_OFFSET(mortise_plan_cost, lost_milli_gpu_seconds, 8);
MORTISE_ASSERT_OFFSET(mortise_plan_cost, stranded_milli, 24);

MORTISE_ASSERT_SIZE(mortise_runner_up, 48);
MORTISE_ASSERT_OFFSET(mortise_runner_up, lost_by, 40);

MORTISE_ASSERT_SIZE(mortise_blocked, 40);
MORTISE_ASSERT_OFFSET(mortise_blocked, reason, 36);

MORTISE_ASSERT_SIZE(mortise_checkpoint_warning, 24);
MORTISE_ASSERT_OFFSET(mortise_checkpoint_warning, fault, 16);

MORTISE_ASSERT_SIZE(mortise_plan_buffers, 120);
MORTISE_ASSERT_OFFSET(mortise_plan_buffers, victims, 8);
MORTISE_ASSERT_OFFSET(mortise_plan_buffers, text, 88);
MORTISE_ASSERT_OFFSET(mortise_plan_buffers, placement_stride, 104);

MORTISE_ASSERT_SIZE(mortise_plan, 104);
MORTISE_ASSERT_OFFSET(mortise_plan, cost, 32);
MORTISE_ASSERT_OFFSET(mortise_plan, evicted_milli, 64);
MORTISE_ASSERT_OFFSET(mortise_plan, placed_count, 100);

#undef MORTISE_ASSERT_SIZE
#undef MORTISE_ASSERT_OFFSET

#ifdef __cplusplus
}
#endif

#endif /* MORTISE_H */
