//! Plans through the ABI: the kernel's own answer, refused input leaves everything as it was, random bytes never crash.

mod common;

use std::mem::MaybeUninit;
use std::ptr;

use common::{Cluster, OK, PlanRoom, facts, message, pod, preempt_request, text};
use mortise::abi;
use proptest::prelude::*;

const NOW: i64 = 1_700_000_000;

fn status(number: u32) -> i32 {
    number.cast_signed()
}

fn inference(uid: u64, cards: u16) -> abi::mortise_pod_request {
    abi::mortise_pod_request { tier: 0, priority: 1_000, ..pod(uid, cards, 1_000) }
}

#[test]
fn the_pods_that_lose_least_go_and_no_more_than_needed() {
    let (cluster, refs) = Cluster::crowded(3, NOW);
    let pods = [inference(900, 2)];
    let mut room = PlanRoom::new(16);
    let (code, err) = cluster.preempt(&preempt_request(&pods, &refs, NOW), &mut room, false);
    assert_eq!(code, OK, "{}", message(&err));
    let plan = &room.plan;
    assert_eq!(plan.flags, abi::MORTISE_PLAN_FOUND | abi::MORTISE_PLAN_OPTIMAL);
    assert_eq!((plan.victim_count, plan.placement_count), (2, 1));
    assert_eq!([room.victims[0].uid_lo, room.victims[1].uid_lo], [1, 2], "the youngest two");
    assert_eq!(room.victims[0].lost_milli_gpu_seconds, 60_000);
    assert_eq!(plan.cost.lost_milli_gpu_seconds, 60_000 + 120_000);
    assert_eq!(plan.evicted_milli, 2_000);
    assert_eq!(room.placements[0].node_ref, refs[0]);
    assert_eq!(room.placements[0].devices, 0b11);
    assert_eq!(plan.runner_up_count, 2, "the other two nodes");
    assert_eq!(room.runner_ups[0].node_ref, refs[1]);
    assert_eq!(room.runner_ups[0].lost_by, abi::MORTISE_LOST_BY_LOST_WORK);
    assert_eq!(text(room.text.as_ptr()).unwrap(), "");
}

#[test]
fn side_tables_change_the_choice() {
    let (cluster, refs) = Cluster::crowded(1, NOW);
    let pods = [inference(900, 1)];
    let covered = abi::mortise_pod_facts { first_budget: 0, budget_count: 1, ..facts(1) };
    let saver = abi::mortise_pod_facts { save_seconds: 5, restart_seconds: 0, ..facts(8) };
    let (side, budgets, budget_refs) = ([covered, saver], [0u32], [0u32]);
    let mut request = preempt_request(&pods, &refs, NOW);
    request.facts = side.as_ptr();
    request.fact_count = side.len();
    request.budgets = budgets.as_ptr();
    request.budget_count = 1;
    request.budget_refs = budget_refs.as_ptr();
    request.budget_ref_count = 1;
    let mut room = PlanRoom::new(16);
    let (code, err) = cluster.preempt(&request, &mut room, false);
    assert_eq!(code, OK, "{}", message(&err));
    assert_eq!(room.victims[0].uid_lo, 8, "it saves within its grace");
    assert_eq!(room.victims[0].lost_milli_gpu_seconds, 5_000);
    assert_eq!(room.plan.cost.budget_violations, 0);
}

#[test]
fn a_group_gets_room_as_a_whole_or_none() {
    let (cluster, refs) = Cluster::crowded(3, NOW);
    let pods = [inference(900, 8), inference(901, 8)];
    let mut request = preempt_request(&pods, &refs, NOW);
    let mut room = PlanRoom::new(32);
    let (code, err) = cluster.preempt(&request, &mut room, true);
    assert_eq!(code, OK, "{}", message(&err));
    assert_eq!((room.plan.victim_count, room.plan.placement_count), (16, 2));
    assert_ne!(room.placements[0].node_ref, room.placements[1].node_ref);

    let domains = [1, 2, 3];
    request.domains = domains.as_ptr();
    let mut room = PlanRoom::new(32);
    assert_eq!(cluster.preempt(&request, &mut room, true).0, OK);
    assert_eq!(room.plan.flags, 0, "no domain has two nodes");
    assert_eq!(room.plan.placed_count, 1);
    assert!(text(room.text.as_ptr()).unwrap().contains("1 members only"));
}

#[test]
fn why_there_is_no_plan_is_said() {
    let (cluster, refs) = Cluster::crowded(2, NOW);
    let same_tier = [abi::mortise_pod_request { tier: 2, priority: 1_000, ..pod(900, 1, 1_000) }];
    let mut room = PlanRoom::new(16);
    assert_eq!(cluster.preempt(&preempt_request(&same_tier, &refs, NOW), &mut room, false).0, OK);
    assert_eq!((room.plan.flags, room.plan.victim_count, room.plan.blocked_count), (0, 0, 1));
    assert_eq!(room.blocked[0].node_count, 2);
    assert_eq!(
        (room.blocked[0].fixed_least_milli, room.blocked[0].fixed_most_milli),
        (8_000, 8_000)
    );
    let why = text(room.text.as_ptr()).unwrap();
    assert!(
        why.contains("no node can be emptied: 8 non-preemptible GPUs on each (2 nodes)"),
        "{why}"
    );
}

#[test]
fn refused_input_names_the_field_and_writes_nothing() {
    let (cluster, refs) = Cluster::crowded(2, NOW);
    let one = [inference(900, 1)];
    let two = [inference(900, 1), inference(901, 1)];
    let stale = [refs[0], 77 << 32 | 1];
    let twice = [facts(1), facts(1)];
    let no_gang = [abi::mortise_pod_facts { gang: 3, ..facts(1) }];
    let flagged = [abi::mortise_pod_facts { flags: 8, ..facts(1) }];
    let whole = [abi::mortise_gang { flags: 2, min_members: 1 }];
    let with = |change: &dyn Fn(&mut abi::mortise_preempt_request)| {
        let mut request = preempt_request(&one, &refs, NOW);
        change(&mut request);
        request
    };
    let cases = [
        (with(&|r| r.pod_count = 0), abi::MORTISE_ERR_BAD_LENGTH, "request.pod_count"),
        (preempt_request(&two, &refs, NOW), abi::MORTISE_ERR_BAD_LENGTH, "request.pod_count"),
        (with(&|r| r.pods = ptr::null()), abi::MORTISE_ERR_NULL_POINTER, "request.pods"),
        (with(&|r| r.pod_stride = 8), abi::MORTISE_ERR_BAD_STRUCT_SIZE, "stride of request.pods"),
        (with(&|r| r.flags = 4), abi::MORTISE_ERR_NOT_SUPPORTED, "request.flags"),
        (with(&|r| r.flags = 1), abi::MORTISE_ERR_INVALID_VALUE, "request.candidate_count"),
        (with(&|r| r.domains = [1u32, 2].as_ptr()), abi::MORTISE_ERR_INVALID_VALUE, "domains"),
        (with(&|r| r.grace_seconds = u32::MAX), abi::MORTISE_ERR_LIMIT_EXCEEDED, "grace_seconds"),
        (
            with(&|r| r.guarantee_lost_milli_gpu_seconds = -1),
            abi::MORTISE_ERR_INVALID_VALUE,
            "guarantee_lost",
        ),
        (preempt_request(&one, &stale, NOW), abi::MORTISE_ERR_UNKNOWN_NODE, "nodes[1]"),
        (
            with(&|r| (r.facts, r.fact_count) = (twice.as_ptr(), 2)),
            abi::MORTISE_ERR_INVALID_VALUE,
            "pod facts [1].uid",
        ),
        (
            with(&|r| (r.facts, r.fact_count) = (no_gang.as_ptr(), 1)),
            abi::MORTISE_ERR_INVALID_VALUE,
            "gang",
        ),
        (
            with(&|r| (r.facts, r.fact_count) = (flagged.as_ptr(), 1)),
            abi::MORTISE_ERR_NOT_SUPPORTED,
            "request.facts[0].flags",
        ),
        (
            with(&|r| (r.gangs, r.gang_count) = (whole.as_ptr(), 1)),
            abi::MORTISE_ERR_NOT_SUPPORTED,
            "request.gangs[0].flags",
        ),
    ];
    for (request, expected, names) in cases {
        let mut room = PlanRoom::new(16);
        let (code, err) = cluster.preempt(&request, &mut room, false);
        assert_eq!(code, status(expected), "{names}: {}", message(&err));
        assert!(message(&err).contains(names), "{names}: {}", message(&err));
        assert!(room.untouched(), "{names}");
    }
    let mut room = PlanRoom::new(0);
    let (code, err) = cluster.preempt(&preempt_request(&one, &refs, NOW), &mut room, false);
    assert_eq!(code, status(abi::MORTISE_ERR_BUFFER_TOO_SMALL));
    assert_eq!(err.required, 1);
    assert!(room.untouched());
}

fn from_bytes<T: Copy>(bytes: &[u8]) -> T {
    assert_eq!(bytes.len(), size_of::<T>());
    let mut value = MaybeUninit::<T>::uninit();
    let to = value.as_mut_ptr().cast::<u8>();
    // SAFETY: as many bytes as T has.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    // SAFETY: used with structs of integers only, for which all bytes are valid.
    unsafe { value.assume_init() }
}

/// Bytes of which most are small, so that some values get past the first check.
fn bytes(length: usize) -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![6 => Just(0u8), 2 => 0..4u8, 1 => any::<u8>()];
    prop::collection::vec(byte, length)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn random_bytes_never_crash(
        pods in prop::collection::vec(bytes(size_of::<abi::mortise_pod_request>()), 1..3),
        side in prop::collection::vec(bytes(size_of::<abi::mortise_pod_facts>()), 0..4),
        gangs in prop::collection::vec(bytes(size_of::<abi::mortise_gang>()), 0..3),
        numbers in prop::collection::vec(0..4u32, 4),
        flags in 0..4u32,
        ratio in 0..4_000u32,
        now in any::<i64>(),
        group in any::<bool>(),
        capacity in 0..20usize,
    ) {
        let (cluster, refs) = Cluster::crowded(2, NOW);
        let before = cluster.digest();
        let pods: Vec<abi::mortise_pod_request> = pods.iter().map(|pod| from_bytes(pod)).collect();
        let side: Vec<abi::mortise_pod_facts> = side.iter().map(|facts| from_bytes(facts)).collect();
        let gangs: Vec<abi::mortise_gang> = gangs.iter().map(|gang| from_bytes(gang)).collect();
        let tenants = [0u64, u64::MAX];
        let mut request = preempt_request(&pods, if flags & 1 == 0 { &refs } else { &[] }, now);
        request.flags = flags;
        request.ratio_permille = ratio;
        request.expansions = 1_000;
        (request.facts, request.fact_count) = (side.as_ptr(), side.len());
        (request.gangs, request.gang_count) = (gangs.as_ptr(), gangs.len());
        (request.budgets, request.budget_count) = (numbers.as_ptr(), 4);
        (request.budget_refs, request.budget_ref_count) = (numbers.as_ptr(), 4);
        (request.tenants, request.tenant_count) = (tenants.as_ptr(), 2);
        if group && flags & 1 == 0 {
            request.domains = numbers.as_ptr();
        }
        let mut room = PlanRoom::new(capacity);
        let (code, err) = cluster.preempt(&request, &mut room, group);
        prop_assert!((0..=abi::MORTISE_ERR_NOT_SUPPORTED.cast_signed()).contains(&code));
        prop_assert!(code != status(abi::MORTISE_ERR_PANIC), "{}", message(&err));
        prop_assert_eq!(cluster.digest(), before, "planning changes nothing");
        if code == OK {
            prop_assert!(room.plan.victim_count as usize <= capacity);
        } else {
            prop_assert!(room.untouched());
        }
    }

    /// Without any of its victims a plan does not work: the pod still lacks a card.
    #[test]
    fn as_many_cards_as_needed(cards in 1..=8u16, nodes in 1..4u64) {
        let (cluster, refs) = Cluster::crowded(nodes, NOW);
        let pods = [inference(900, cards)];
        let mut room = PlanRoom::new(32);
        let (code, _) = cluster.preempt(&preempt_request(&pods, &refs, NOW), &mut room, false);
        prop_assert_eq!(code, OK);
        prop_assert_eq!(room.plan.victim_count, u32::from(cards));
        prop_assert_eq!(room.placements[0].devices.count_ones(), u32::from(cards));
    }
}
