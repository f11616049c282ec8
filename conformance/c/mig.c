/* MIG: names and places, instances that are chosen, held and refused, values outside their range. */
#include "check.h"

static uint8_t model_named(const char *name) {
    for (uint8_t model = 1; mortise_mig_model_name(model) != NULL; model++)
        if (strcmp(mortise_mig_model_name(model), name) == 0)
            return model;
    return 0;
}

static uint8_t profile_named(const char *name) {
    for (uint8_t profile = 0; mortise_mig_profile_name(profile) != NULL; profile++)
        if (strcmp(mortise_mig_profile_name(profile), name) == 0)
            return profile;
    return UINT8_MAX;
}

static void names(void) {
    mortise_error err = new_error();
    CHECK(mortise_mig_model_name(0) == NULL && mortise_mig_model_name(UINT8_MAX) == NULL);
    CHECK(mortise_mig_profile_name(UINT8_MAX) == NULL);
    CHECK(strcmp(mortise_mig_strategy_name(0), "expected-stranding") == 0 && mortise_mig_strategy_name(4) == NULL);
    for (uint32_t index = 0; mortise_mig_strategy_name(index) != NULL; index++) {
        mortise_config config = new_config();
        config.mig_strategy = mortise_mig_strategy_name(index);
        config.mig_strategy_length = strlen(config.mig_strategy);
        mortise_handle made = 0;
        OK(mortise_cluster_new(&config, &made, &err));
        free_cluster(made);
    }
    mortise_config config = new_config();
    config.mig_strategy = "worst-fit";
    config.mig_strategy_length = 9;
    mortise_handle made = 42;
    EXPECT(mortise_cluster_new(&config, &made, &err), MORTISE_ERR_INVALID_VALUE, "worst-fit");
    CHECK(made == 42);

    /* Every place is within its card, and the last one is followed by nothing. */
    mortise_mig_place place = {.struct_size = sizeof place};
    for (uint8_t model = 1; mortise_mig_model_name(model) != NULL; model++) {
        uint8_t count = 0;
        while (mortise_mig_place_at(model, count, &place, NULL) == MORTISE_OK) {
            CHECK(place.start + place.slices <= 8 && place.slices > 0 && place.media <= 1);
            CHECK(mortise_mig_profile_name(place.profile) != NULL);
            count++;
        }
        CHECK(count > 0 && count <= 32);
        place.slices = 99;
        EXPECT(mortise_mig_place_at(model, count, &place, &err), MORTISE_ERR_INVALID_VALUE, "place");
        CHECK(place.slices == 99);
    }
    EXPECT(mortise_mig_place_at(0, 0, &place, &err), MORTISE_ERR_INVALID_VALUE, "model");
    EXPECT(mortise_mig_place_at(1, 0, NULL, &err), MORTISE_ERR_NULL_POINTER, "out_place");
    place.struct_size = MORTISE_MIG_PLACE_MIN_SIZE - 1;
    EXPECT(mortise_mig_place_at(1, 0, &place, &err), MORTISE_ERR_BAD_STRUCT_SIZE, "out_place");
}

static mortise_node_delta new_mig_node(uint64_t key, uint8_t model, uint16_t cards) {
    mortise_node_delta node = new_node(key, cards);
    for (uint16_t device = 0; device < cards; device++) {
        node.gpu_capacity_milli[device] = 0;
        node.mig_model[device] = model;
        mortise_mig_place place = {.struct_size = sizeof place};
        for (uint8_t at = 0; mortise_mig_place_at(model, at, &place, NULL) == MORTISE_OK; at++)
            node.mig_places[device] |= 1u << at;
    }
    return node;
}

/* Used 1g at 0, 1 and 5: five slices are free, and a 3g has no legal start. A second card takes it. */
static void hole_in_the_wrong_place(void) {
    mortise_error err = new_error();
    mortise_handle handle = new_cluster(0, 0, NULL);
    uint8_t model = model_named("h100-80gb"), three = profile_named("3g.40gb"), one = profile_named("1g.10gb");
    CHECK(model != 0 && three != UINT8_MAX && one != UINT8_MAX);
    mortise_node_delta node = new_mig_node(1, model, 1);
    mortise_pod_record held = new_pod_record(1, 0, 0, 0);
    mortise_mig_place place = {.struct_size = sizeof place};
    for (uint8_t at = 0; mortise_mig_place_at(model, at, &place, NULL) == MORTISE_OK; at++)
        if (place.profile == one && (place.start == 0 || place.start == 1 || place.start == 5))
            held.mig[held.mig_count++].place = at;
    CHECK(held.mig_count == 3);
    node.pod_count = 1;
    mortise_node_ref refs[2];
    mortise_sync_request sync = new_sync(&node, 1, &held, 1);
    mortise_sync_result result = new_sync_result();
    OK(mortise_sync(handle, &sync, refs, &result, &err));

    mortise_pod_request pod = new_pod(2, 0, 0);
    pod.mig[0] = (mortise_mig_kind){.profile = three, .count = 1};
    mortise_score_request request = new_score(&pod, refs, 1);
    mortise_decision decision = new_decision();
    mortise_node_score score;
    OK(mortise_score(handle, &request, &score, 1, &decision, &err));
    CHECK(decision.node_ref == MORTISE_NODE_REF_NONE && decision.mig_count == 0);
    CHECK(score.reason == MORTISE_REASON_NO_LEGAL_MIG_START);
    mortise_node_reason reason;
    size_t count = 0;
    OK(mortise_reasons(handle, &pod, sizeof reason, &reason, 1, &count, &err));
    CHECK(count == 1 && reason.reason == MORTISE_REASON_NO_LEGAL_MIG_START && reason.need == 4 && reason.have == 5);
    mortise_fragmentation_report report = {.struct_size = sizeof report};
    OK(mortise_fragmentation(handle, &report, &err));
    CHECK(report.mig_slices == 8 && report.mig_used_slices == 3 && report.mig_stranded_milli <= 1000);

    mortise_node_delta empty = new_mig_node(2, model, 2);
    sync = new_sync(&empty, 1, NULL, 0);
    OK(mortise_sync(handle, &sync, refs + 1, &result, &err));
    request = new_score(&pod, refs, 2);
    OK(mortise_score(handle, &request, NULL, 0, &decision, &err));
    CHECK(decision.node_ref == refs[1] && decision.mig_count == 1 && decision.mig[0].device < 2);
    OK(mortise_mig_place_at(model, decision.mig[0].place, &place, &err));
    CHECK(place.profile == three);

    /* The short structs of a host that knows no MIG: no card in MIG mode, no instance. */
    decision.struct_size = MORTISE_DECISION_MIN_SIZE;
    pod.struct_size = MORTISE_POD_REQUEST_MIN_SIZE;
    OK(mortise_score(handle, &request, NULL, 0, &decision, &err));
    CHECK(decision.feasible_count == 2);

    /* Instances of which only the profile is known, and exported state. */
    held.mig_count = 0;
    memset(held.mig, 0, sizeof held.mig);
    held.mig_unknown[0] = (mortise_mig_kind){.profile = one, .count = 7};
    sync = new_sync(&node, 1, &held, 1);
    OK(mortise_sync(handle, &sync, refs, &result, &err));
    OK(mortise_fragmentation(handle, &report, &err));
    CHECK(report.mig_slices == 24 && report.mig_used_slices == 7);
    unsigned char state[4096];
    size_t length = 0;
    uint64_t before = digest_of(handle);
    OK(mortise_state_export(handle, state, sizeof state, &length, &err));
    OK(mortise_state_import(handle, state, length, &err));
    CHECK(digest_of(handle) == before);
    free_cluster(handle);
}

static void wrong_values(void) {
    mortise_error err = new_error();
    mortise_handle handle = new_cluster(0, 0, NULL);
    uint8_t model = model_named("h100-80gb");
    mortise_sync_result result = new_sync_result();
    mortise_node_delta node = new_mig_node(1, model, 1);
    mortise_sync_request sync = new_sync(&node, 1, NULL, 0);
    node.gpu_capacity_milli[0] = 1000;
    EXPECT(mortise_sync(handle, &sync, NULL, &result, &err), MORTISE_ERR_INVALID_VALUE, "mig[0]");
    node = new_mig_node(1, model, 1);
    node.mig_model[0] = UINT8_MAX;
    EXPECT(mortise_sync(handle, &sync, NULL, &result, &err), MORTISE_ERR_INVALID_VALUE, "upserts[0].mig_model[0]");
    node = new_mig_node(1, model, 1);
    node.mig_places[0] = UINT32_MAX;
    EXPECT(mortise_sync(handle, &sync, NULL, &result, &err), MORTISE_ERR_INVALID_VALUE, "upserts[0].mig_model[0]");
    node = new_mig_node(1, model, 1);
    node.mig_places[1] = 1;
    EXPECT(mortise_sync(handle, &sync, NULL, &result, &err), MORTISE_ERR_INVALID_VALUE, "upserts[0].mig_places[1]");
    node = new_mig_node(1, model, 1);
    node.mig_model[1] = model;
    EXPECT(mortise_sync(handle, &sync, NULL, &result, &err), MORTISE_ERR_INVALID_VALUE, "mig[1]");

    node = new_mig_node(1, model, 1);
    node.pod_count = 1;
    mortise_pod_record pod = new_pod_record(1, 0, 0, 0);
    sync = new_sync(&node, 1, &pod, 1);
    pod.mig_count = 1;
    pod.mig[0].device = 1;
    EXPECT(mortise_sync(handle, &sync, NULL, &result, &err), MORTISE_ERR_INVALID_VALUE, "device 1");
    pod.mig[0] = (mortise_mig_instance){.device = 0, .place = UINT8_MAX};
    EXPECT(mortise_sync(handle, &sync, NULL, &result, &err), MORTISE_ERR_INVALID_VALUE, "device 0");
    pod.mig[0] = (mortise_mig_instance){.device = UINT8_MAX, .place = 0};
    EXPECT(mortise_sync(handle, &sync, NULL, &result, &err), MORTISE_ERR_INVALID_VALUE, "device 255");
    pod.mig_count = 0;
    pod.mig_unknown[0] = (mortise_mig_kind){.profile = UINT8_MAX, .count = 1};
    EXPECT(mortise_sync(handle, &sync, NULL, &result, &err), MORTISE_ERR_INVALID_VALUE, "pods[0].mig_unknown");

    mortise_pod_request request = new_pod(1, 0, 0);
    size_t count = 42;
    request.mig[3] = (mortise_mig_kind){.profile = 0, .count = MORTISE_MAX_MIG_PER_POD + 1};
    EXPECT(mortise_reasons(handle, &request, 0, NULL, 0, &count, &err), MORTISE_ERR_LIMIT_EXCEEDED, "mig");
    request.mig[3] = (mortise_mig_kind){.profile = UINT8_MAX, .count = 1};
    EXPECT(mortise_reasons(handle, &request, 0, NULL, 0, &count, &err), MORTISE_ERR_INVALID_VALUE, "mig");
    CHECK(count == 42);
    free_cluster(handle);
}

void check_mig(void) {
    names();
    hole_in_the_wrong_place();
    wrong_values();
}
