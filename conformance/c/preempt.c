/* Plans: who gives way, for one pod and for a group, and what is refused. */
#include "check.h"

enum { CARDS = 8, NODES = 2, ROOM = 32 };

static const int64_t NOW = 1700000000;

typedef struct {
    mortise_victim victims[ROOM];
    mortise_plan_placement placements[ROOM];
    mortise_runner_up runner_ups[2];
    mortise_blocked blocked[2];
    mortise_checkpoint_warning warnings[2];
    char text[200];
    mortise_plan_buffers buffers;
    mortise_plan plan;
} room;

static void new_room(room *r) {
    memset(r, 0x5a, sizeof *r);
    memset(&r->buffers, 0, sizeof r->buffers);
    r->buffers.struct_size = sizeof r->buffers;
    r->buffers.victims = r->victims;
    r->buffers.victim_capacity = ROOM;
    r->buffers.victim_stride = sizeof r->victims[0];
    r->buffers.placements = r->placements;
    r->buffers.placement_capacity = ROOM;
    r->buffers.placement_stride = sizeof r->placements[0];
    r->buffers.runner_ups = r->runner_ups;
    r->buffers.runner_up_capacity = 2;
    r->buffers.runner_up_stride = sizeof r->runner_ups[0];
    r->buffers.blocked = r->blocked;
    r->buffers.blocked_capacity = 2;
    r->buffers.blocked_stride = sizeof r->blocked[0];
    r->buffers.warnings = r->warnings;
    r->buffers.warning_capacity = 2;
    r->buffers.warning_stride = sizeof r->warnings[0];
    r->buffers.text = r->text;
    r->buffers.text_capacity = sizeof r->text;
    r->plan.struct_size = sizeof r->plan;
}

static mortise_preempt_request new_preempt(const mortise_pod_request *pods, size_t pod_count,
                                           const mortise_node_ref *candidates, size_t candidate_count) {
    mortise_preempt_request request;
    memset(&request, 0, sizeof request);
    request.struct_size = sizeof request;
    request.now_seconds = NOW;
    request.pods = pods;
    request.pod_count = pod_count;
    request.pod_stride = sizeof *pods;
    request.candidates = candidates;
    request.candidate_count = candidate_count;
    request.fact_stride = sizeof(mortise_pod_facts);
    request.gang_stride = sizeof(mortise_gang);
    request.guarantee_milli = UINT64_MAX;
    request.ratio_permille = 2000;
    request.grace_seconds = 30;
    return request;
}

static mortise_pod_request new_preemptor(uint64_t uid, uint16_t cards) {
    mortise_pod_request pod = new_pod(uid, cards, 1000);
    pod.tier = MORTISE_TIER_INFERENCE;
    pod.priority = 1000;
    return pod;
}

/* Nodes full of batch pods of one card; pod n has run n minutes. */
static mortise_handle crowded(mortise_node_ref *refs) {
    mortise_error err = new_error();
    mortise_handle handle = new_cluster(0, NODES, refs);
    mortise_node_delta nodes[NODES];
    mortise_pod_record pods[NODES * CARDS];
    for (uint32_t at = 0; at < NODES; at++) {
        nodes[at] = new_node(at + 1, CARDS);
        nodes[at].node_ref = refs[at];
        nodes[at].first_pod = at * CARDS;
        nodes[at].pod_count = CARDS;
        for (uint32_t card = 0; card < CARDS; card++) {
            uint64_t uid = at * CARDS + card + 1;
            mortise_pod_record *pod = &pods[at * CARDS + card];
            *pod = new_pod_record(uid, 1, 1000, (uint16_t)(1u << card));
            pod->tier = MORTISE_TIER_BATCH;
            pod->priority = 10;
            pod->start_seconds = NOW - 60 * (int64_t)uid;
        }
    }
    mortise_sync_request sync = new_sync(nodes, NODES, pods, NODES * CARDS);
    mortise_sync_result result = new_sync_result();
    OK(mortise_sync(handle, &sync, refs, &result, &err));
    return handle;
}

static void plans(void) {
    mortise_error err = new_error();
    mortise_node_ref refs[NODES];
    mortise_handle handle = crowded(refs);
    uint64_t before = digest_of(handle);

    mortise_pod_request pods[2] = {new_preemptor(900, 2), new_preemptor(901, 2)};
    mortise_preempt_request request = new_preempt(pods, 1, refs, NODES);
    static room r;
    new_room(&r);
    OK(mortise_preempt(handle, &request, &r.buffers, &r.plan, &err));
    CHECK(r.plan.flags == (MORTISE_PLAN_FOUND | MORTISE_PLAN_OPTIMAL));
    CHECK(r.plan.victim_count == 2 && r.plan.placement_count == 1 && r.plan.evicted_milli == 2000);
    CHECK(r.victims[0].uid_lo == 1 && r.victims[1].uid_lo == 2 && r.victims[0].node_ref == refs[0]);
    CHECK(r.victims[0].kind == MORTISE_VICTIM_POD && r.victims[0].gang == MORTISE_INDEX_NONE);
    CHECK(r.placements[0].node_ref == refs[0] && r.placements[0].devices == 3);
    CHECK(r.plan.runner_up_count == 1 && r.runner_ups[0].lost_by == MORTISE_LOST_BY_LOST_WORK);
    CHECK(r.text[0] == '\0');

    /* A gang goes whole; one that can do without a member loses that member alone. */
    mortise_pod_facts facts[2];
    memset(facts, 0, sizeof facts);
    for (uint64_t at = 0; at < 2; at++) {
        facts[at].uid_lo = at + 1;
        facts[at].tenant = MORTISE_INDEX_NONE;
        facts[at].save_seconds = MORTISE_SAVES_NEVER;
    }
    mortise_gang gang = {.flags = 0, .min_members = 1};
    request.pods = &pods[0];
    pods[0].gpu_count = 1;
    request.facts = facts;
    request.fact_count = 2;
    request.gangs = &gang;
    request.gang_count = 1;
    new_room(&r);
    OK(mortise_preempt(handle, &request, &r.buffers, &r.plan, &err));
    CHECK(r.plan.victim_count == 1 && r.victims[0].kind == MORTISE_VICTIM_SURPLUS && r.victims[0].gang == 0);
    gang.flags = MORTISE_GANG_WHOLE;
    new_room(&r);
    OK(mortise_preempt(handle, &request, &r.buffers, &r.plan, &err));
    CHECK(r.plan.victim_count == 2 ? r.victims[0].kind == MORTISE_VICTIM_GANG : r.victims[0].uid_lo > 2);

    pods[0].gpu_count = 2;
    request = new_preempt(pods, 2, refs, NODES);
    new_room(&r);
    OK(mortise_preempt_group(handle, &request, &r.buffers, &r.plan, &err));
    CHECK(r.plan.flags == MORTISE_PLAN_FOUND && r.plan.victim_count == 4 && r.plan.placement_count == 2);

    /* No plan: the text says why, cut to the room there is. */
    request = new_preempt(pods, 1, refs, NODES);
    pods[0].tier = MORTISE_TIER_BATCH;
    new_room(&r);
    r.buffers.text_capacity = 11;
    OK(mortise_preempt(handle, &request, &r.buffers, &r.plan, &err));
    CHECK(r.plan.flags == 0 && r.plan.victim_count == 0 && r.plan.blocked_count == 1);
    CHECK(strcmp(r.text, "preemption") == 0 && (unsigned char)r.text[11] == 0x5a);
    CHECK(r.blocked[0].node_count == NODES && r.blocked[0].fixed_least_milli == 8000);
    CHECK(digest_of(handle) == before);
    free_cluster(handle);
}

static void refusals(void) {
    mortise_error err = new_error();
    mortise_node_ref refs[NODES];
    mortise_handle handle = crowded(refs);
    mortise_pod_request pods[2] = {new_preemptor(900, 2), new_preemptor(901, 2)};
    mortise_preempt_request request = new_preempt(pods, 1, refs, NODES);
    static room r;
    new_room(&r);
    EXPECT(mortise_preempt(handle, NULL, &r.buffers, &r.plan, &err), MORTISE_ERR_NULL_POINTER, "request");
    EXPECT(mortise_preempt(handle, &request, NULL, &r.plan, &err), MORTISE_ERR_NULL_POINTER, "buffers");
    EXPECT(mortise_preempt(handle, &request, &r.buffers, NULL, &err), MORTISE_ERR_NULL_POINTER, "out_plan");
    request.fact_count = 1;
    EXPECT(mortise_preempt(handle, &request, &r.buffers, &r.plan, &err), MORTISE_ERR_NULL_POINTER, "request.facts");
    request = new_preempt(pods, 2, refs, NODES);
    EXPECT(mortise_preempt(handle, &request, &r.buffers, &r.plan, &err), MORTISE_ERR_BAD_LENGTH, "pod_count");
    pods[1].tier = MORTISE_TIER_TRAINING;
    EXPECT(mortise_preempt_group(handle, &request, &r.buffers, &r.plan, &err), MORTISE_ERR_INVALID_VALUE, "members[1]");
    request = new_preempt(pods, 1, refs, NODES);
    request.struct_size = MORTISE_PREEMPT_REQUEST_MIN_SIZE - 1;
    EXPECT(mortise_preempt(handle, &request, &r.buffers, &r.plan, &err), MORTISE_ERR_BAD_STRUCT_SIZE, "request");
    request = new_preempt(pods, 1, refs, NODES);
    request.reserved = 1;
    EXPECT(mortise_preempt(handle, &request, &r.buffers, &r.plan, &err), MORTISE_ERR_NOT_SUPPORTED, "reserved");
    request = new_preempt(pods, 1, refs, NODES);
    uint32_t budget_ref = 5;
    request.budget_refs = &budget_ref;
    request.budget_ref_count = 1;
    EXPECT(mortise_preempt(handle, &request, &r.buffers, &r.plan, &err), MORTISE_ERR_INVALID_VALUE, "budget_refs[0]");
    request = new_preempt(pods, 1, refs, NODES);
    r.buffers.victim_stride = 8;
    EXPECT(mortise_preempt(handle, &request, &r.buffers, &r.plan, &err), MORTISE_ERR_BAD_STRUCT_SIZE, "buffers.victims");
    new_room(&r);
    r.buffers.victim_capacity = 1;
    EXPECT(mortise_preempt(handle, &request, &r.buffers, &r.plan, &err), MORTISE_ERR_BUFFER_TOO_SMALL, "buffers.victims");
    CHECK(err.required == 2);
    new_room(&r);
    r.buffers.blocked = (mortise_blocked *)(void *)r.victims;
    EXPECT(mortise_preempt(handle, &request, &r.buffers, &r.plan, &err), MORTISE_ERR_OVERLAP, "buffers.blocked");
    new_room(&r);
    EXPECT(mortise_preempt(handle + (UINT64_C(1) << 40), &request, &r.buffers, &r.plan, &err), MORTISE_ERR_BAD_HANDLE,
           "handle");
    CHECK(r.plan.victim_count == 0x5a5a5a5a && r.victims[0].gpu_milli == 0x5a5a5a5a && r.text[0] == 0x5a);
    free_cluster(handle);
}

void check_preempt(void) {
    plans();
    refusals();
}
