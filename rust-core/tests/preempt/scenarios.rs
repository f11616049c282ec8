//! Clusters in which other schedulers evicted the wrong pods, with the right result.

use mortise_core::preempt::{
    CheckpointFault, Criterion, Disruption, DisruptionBudget, Gang, NoPlan, Outcome, Plan,
    PlanHistory, PodFacts, Tenant, UnitKind,
};
use mortise_core::{GpuRequest, MilliCpu, MilliGpu, PodRecord, PodUid, Priority, Tier};

use crate::world::{NOW, Node, World, node, pod, request};

const MINUTE: i64 = 60;
const HOUR: i64 = 3_600;

fn whole(count: u8) -> GpuRequest {
    GpuRequest::Whole { count }
}

fn plan(world: &World) -> Plan {
    match world.plan() {
        Outcome::Plan(plan) => *plan,
        Outcome::NoPlan(none) => panic!("no plan: {none}"),
    }
}

fn no_plan(world: &World) -> NoPlan {
    match world.plan() {
        Outcome::Plan(plan) => panic!("unexpected plan {plan:?}"),
        Outcome::NoPlan(none) => *none,
    }
}

fn evicted(plan: &Plan) -> Vec<u128> {
    let mut uids: Vec<u128> = plan.evictions().map(|victim| victim.uid.0).collect();
    uids.sort_unstable();
    uids
}

fn under_gang(world: &mut World, gang: Gang, uids: impl Iterator<Item = u128>) {
    let index = world.gangs.len() as u32;
    world.gangs.push(gang);
    world.facts.extend(uids.map(|uid| PodFacts { gang: index, ..PodFacts::new(PodUid(uid)) }));
}

// Needs 1, evicts 10 (volcano #5994).
#[test]
fn an_elastic_gang_gives_up_exactly_what_is_needed() {
    for need in 1..=10u8 {
        let pods = (0..11).map(|i| pod(i + 1, i as usize, 1, Tier::Batch, HOUR)).collect();
        let mut world = World::of(vec![node(1, 11, pods)], request(whole(need), Tier::Inference));
        let elastic = Gang { disruption: Disruption::Single, min_members: 1 };
        under_gang(&mut world, elastic, 1..=11);
        let plan = plan(&world);
        assert_eq!(plan.evictions().count(), usize::from(need));
        assert!(plan.victims.iter().all(|victim| victim.kind == UnitKind::Surplus));
        assert_eq!(plan.cost.units, u32::from(need));
    }
}

#[test]
fn a_gang_that_would_fall_under_its_minimum_goes_whole() {
    let halves =
        |first: u128| (0..2).map(move |i| pod(first + i, i as usize * 2, 2, Tier::Batch, HOUR));
    let nodes = vec![node(1, 4, halves(1).collect()), node(2, 4, halves(3).collect())];
    let mut world = World::of(nodes, request(whole(4), Tier::Inference));
    under_gang(&mut world, Gang { disruption: Disruption::Single, min_members: 3 }, 1..=4);
    let plan = plan(&world);
    assert_eq!(evicted(&plan), [1, 2, 3, 4], "one member may go, two may not");
    assert_eq!(plan.cost.units, 2, "a surplus member and the core");
}

#[test]
fn a_gang_that_only_goes_whole_is_never_broken() {
    let mut pods = vec![pod(1, 0, 1, Tier::Batch, MINUTE), pod(2, 1, 1, Tier::Batch, 3 * MINUTE)];
    pods.push(pod(3, 2, 1, Tier::Batch, MINUTE));
    let mut world = World::of(vec![node(1, 3, pods)], request(whole(1), Tier::Inference));
    under_gang(
        &mut world,
        Gang { disruption: Disruption::All, min_members: 1 },
        [1, 3].into_iter(),
    );
    assert_eq!(evicted(&plan(&world)), [1, 3], "two minutes in all against three");
    world.facts.clear();
    world.gangs.clear();
    assert_eq!(evicted(&plan(&world)).len(), 1);
}

// Preempted 8 scattered GPUs for an 8-GPU pod (kueue #5243).
#[test]
fn scattered_gpus_are_not_evicted_for_a_pod_that_would_not_fit() {
    let nodes: Vec<Node> = (0..4)
        .map(|n| {
            let high = (0..6).map(|i| pod(n * 10 + i, i as usize, 1, Tier::Inference, HOUR));
            let low = (6..8).map(|i| pod(n * 10 + i, i as usize, 1, Tier::Batch, HOUR));
            node(n as u64, 8, high.chain(low).collect())
        })
        .collect();
    let mut world = World::of(nodes, request(whole(8), Tier::Inference));
    let none = no_plan(&world);
    assert_eq!(
        none.to_string(),
        "preemption would not help: no node can be emptied: 6 non-preemptible GPUs on each (4 nodes)"
    );
    assert_eq!(none.blocked[0].nodes, 4);
    world.members = vec![request(whole(1), Tier::Inference)];
    let plan = plan(&world);
    assert_eq!(plan.evictions().count(), 1);
    assert_eq!(world.record(plan.victims[0].uid).tier, Tier::Batch);
}

// PDB broken though another node was free of it (kubernetes #91492).
fn budgets_world(allowed_on_b: Option<u32>) -> World {
    let low = PodRecord { priority: Priority(0), ..pod(1, 0, 1, Tier::Batch, MINUTE) };
    let high = PodRecord { priority: Priority(10), ..pod(2, 0, 1, Tier::Batch, HOUR) };
    let mut preemptor = request(whole(1), Tier::Training);
    preemptor.priority = Priority(100);
    let mut world = World::of(vec![node(1, 1, vec![low]), node(2, 1, vec![high])], preemptor);
    for (index, (uid, allowed)) in [(1, Some(0)), (2, allowed_on_b)].into_iter().enumerate() {
        let Some(allowed) = allowed else { continue };
        world.budgets.push(DisruptionBudget { allowed });
        world.budget_refs.push(index as u32);
        world.facts.push(PodFacts {
            first_budget: index as u32,
            budget_count: 1,
            ..PodFacts::new(PodUid(uid))
        });
    }
    world
}

#[test]
fn a_node_without_a_broken_budget_is_preferred_whatever_is_lost_there() {
    let plan = plan(&budgets_world(None));
    assert_eq!(evicted(&plan), [2]);
    assert_eq!(plan.runner_ups[0].lost_by, Criterion::BudgetViolations);
    assert_eq!(
        plan.runner_ups[0].sentence(plan.cost),
        "would break disruption budgets 1 times instead of 0"
    );
}

#[test]
fn hard_budgets_keep_the_pod_pending_and_say_so() {
    let mut world = budgets_world(Some(0));
    assert_eq!(evicted(&plan(&world)), [1], "soft: the least work lost");
    world.policy.hard_budgets = true;
    let none = no_plan(&world);
    assert_eq!(none.over_budget, Some(1));
    assert!(none.to_string().contains("they are hard"), "{none}");
}

// Kills the one that never saved (volcano #5998).
fn saved_at(uid: u128, first: usize, age: i64, saved: Option<i64>) -> PodRecord {
    PodRecord {
        checkpoint_seconds: saved.map(|ago| NOW - ago),
        ..pod(uid, first, 2, Tier::Batch, age)
    }
}

#[test]
fn the_freshest_checkpoints_go_first() {
    let pods = vec![
        saved_at(1, 0, 3 * HOUR, Some(MINUTE)),
        saved_at(2, 2, 3 * HOUR, Some(9 * MINUTE)),
        saved_at(3, 4, 3 * HOUR, Some(40 * MINUTE)),
        saved_at(4, 6, 3 * HOUR, None),
    ];
    let mut world = World::of(vec![node(1, 8, pods)], request(whole(4), Tier::Inference));
    let best = plan(&world);
    assert_eq!(evicted(&best), [1, 2]);
    assert_eq!(best.cost.lost_milli_gpu_seconds, 2_000 * 10 * MINUTE);
    assert!(best.optimal);
    world.nodes[0].pods[3].start_seconds = NOW - 2 * MINUTE;
    assert_eq!(evicted(&plan(&world)), [1, 4], "a silent pod that just started is cheap");
}

#[test]
fn impossible_checkpoint_times_are_ignored_with_a_warning() {
    let mut pods = vec![saved_at(1, 0, 3 * HOUR, Some(-MINUTE)), saved_at(2, 2, 2 * HOUR, None)];
    pods.push(saved_at(3, 4, HOUR, Some(2 * HOUR)));
    let world = World::of(vec![node(1, 6, pods)], request(whole(2), Tier::Inference));
    let plan = plan(&world);
    assert_eq!(evicted(&plan), [3], "the youngest: no checkpoint counts");
    let faults: Vec<_> = plan.warnings.iter().map(|w| (w.uid.0, w.fault)).collect();
    assert_eq!(faults, [(1, CheckpointFault::InFuture), (3, CheckpointFault::BeforeStart)]);
}

#[test]
fn training_with_a_fresh_checkpoint_is_never_taken_before_batch() {
    let mut fresh = saved_at(1, 0, 3 * HOUR, Some(1));
    (fresh.tier, fresh.priority) = (Tier::Training, Priority(100));
    let pods = vec![fresh, saved_at(2, 2, 30 * HOUR, None)];
    let mut world = World::of(vec![node(1, 4, pods)], request(whole(2), Tier::Inference));
    assert_eq!(evicted(&plan(&world)), [2]);
    world.members = vec![request(whole(2), Tier::Training)];
    assert_eq!(evicted(&plan(&world)), [2]);
    world.members = vec![request(whole(4), Tier::Training)];
    no_plan(&world);
    world.members = vec![request(whole(1), Tier::Batch)];
    no_plan(&world);
}

#[test]
fn what_saves_within_the_grace_window_loses_no_more_than_the_save() {
    let pods = vec![saved_at(1, 0, 9 * HOUR, None), saved_at(2, 2, 5 * MINUTE, None)];
    let mut world = World::of(vec![node(1, 4, pods)], request(whole(2), Tier::Inference));
    let saver = |save: u32, grace: u32| PodFacts {
        save_seconds: Some(save),
        grace_seconds: grace,
        restart_seconds: 60,
        ..PodFacts::new(PodUid(1))
    };
    world.facts = vec![saver(20, 30)];
    let saving = plan(&world);
    assert_eq!(evicted(&saving), [1]);
    assert_eq!(saving.cost.lost_milli_gpu_seconds, 2_000 * 80);
    world.facts = vec![saver(31, 30)];
    assert_eq!(evicted(&plan(&world)), [2], "the window is too short for the save");
}

// Progress guarantee and its budget per tenant.
#[test]
fn a_job_that_was_evicted_unsaved_counts_as_training_within_its_tenants_budget() {
    let mut resident = saved_at(1, 0, HOUR, Some(MINUTE));
    (resident.tier, resident.priority) = (Tier::Training, Priority(100));
    let pods = vec![resident, saved_at(2, 2, 2 * HOUR, None)];
    let mut world = World::of(vec![node(1, 4, pods)], request(whole(2), Tier::Inference));
    world.tenants = vec![Tenant { guarantee_milli: 2_000 }];
    world.facts = vec![PodFacts { tenant: 0, unsaved_evictions: 1, ..PodFacts::new(PodUid(2)) }];
    let protected = plan(&world);
    assert_eq!(evicted(&protected), [1], "both count as tier 1, the resident one lost less");
    assert_eq!(protected.guaranteed_pods, 1);
    world.tenants[0].guarantee_milli = 1_999;
    assert_eq!(evicted(&plan(&world)), [2], "the budget does not cover it");
    world.tenants[0].guarantee_milli = 2_000;
    world.policy.guarantee_after = 0;
    assert_eq!(evicted(&plan(&world)), [2], "the guarantee is off");
    world.policy.guarantee_after = 1;
    world.members = vec![request(whole(2), Tier::Training)];
    no_plan(&world);
}

#[test]
fn much_unsaved_work_holds_the_guarantee_before_any_eviction() {
    let mut resident = saved_at(1, 0, HOUR, Some(MINUTE));
    (resident.tier, resident.priority) = (Tier::Training, Priority(100));
    let pods = vec![resident, saved_at(2, 2, 100 * HOUR, None)];
    let mut world = World::of(vec![node(1, 4, pods)], request(whole(2), Tier::Inference));
    assert_eq!(evicted(&plan(&world)), [2], "tiers first");
    world.policy.guarantee_lost_milli_gpu_seconds = 2_000 * 100 * HOUR;
    assert_eq!(evicted(&plan(&world)), [1]);
    world.policy.guarantee_lost_milli_gpu_seconds += 1;
    assert_eq!(evicted(&plan(&world)), [2]);
}

// Preempt / re-place loop (kubernetes #130429).
#[test]
fn victims_of_another_scheduler_need_consent() {
    let foreign = PodRecord { foreign: true, ..pod(1, 0, 2, Tier::Batch, MINUTE) };
    let mut world = World::of(vec![node(1, 2, vec![foreign])], request(whole(2), Tier::Inference));
    let none = no_plan(&world);
    assert!(none.to_string().contains("2 non-preemptible GPUs"), "{none}");
    world.facts = vec![PodFacts { consent: true, ..PodFacts::new(PodUid(1)) }];
    assert_eq!(evicted(&plan(&world)), [1]);
}

#[test]
fn a_preemptor_gets_one_plan_in_ten_minutes_and_then_waits_longer() {
    let mut history = PlanHistory::default();
    assert_eq!(history.allows(NOW), Ok(()));
    let mut now = NOW;
    for wait in [600, 1_200, 2_400, 4_800, 4_800] {
        history = history.after_plan(now);
        assert_eq!(history.allows(now + wait - 1), Err(now + wait));
        assert_eq!(history.allows(now + wait), Ok(()));
        now += wait;
    }
}

#[test]
fn more_than_twice_the_gpus_asked_for_is_not_evicted() {
    let mut world = World::of(
        vec![node(1, 8, vec![pod(1, 0, 3, Tier::Batch, MINUTE), pod(2, 3, 5, Tier::Inference, 1)])],
        request(whole(1), Tier::Inference),
    );
    let none = no_plan(&world);
    assert_eq!(none.over_ratio, Some((3_000, 1_000)));
    assert_eq!(
        none.to_string(),
        "preemption would not help: it would evict 3 GPUs for 1 asked, above the ratio limit"
    );
    world.policy.ratio_permille = None;
    assert_eq!(evicted(&plan(&world)), [1]);
    world.policy.ratio_permille = Some(2_000);
    world.nodes.push(node(2, 2, vec![pod(3, 0, 2, Tier::Batch, 9 * HOUR)]));
    assert_eq!(evicted(&plan(&world)), [3], "a dearer node within the limit");
}

// Victims that are terminating, and holds of nominated pods.
#[test]
fn terminating_pods_are_waited_for_before_others_are_evicted() {
    let leaving = PodRecord { terminating: true, ..pod(1, 0, 2, Tier::Inference, HOUR) };
    let pods = vec![leaving, pod(2, 2, 2, Tier::Batch, 1)];
    let mut world = World::of(vec![node(1, 4, pods)], request(whole(2), Tier::Inference));
    let waiting = plan(&world);
    assert_eq!(waiting.evictions().count(), 0);
    assert_eq!(waiting.victims[0].kind, UnitKind::Terminating);
    assert_eq!(waiting.evicted_milli, 0);
    world.members = vec![request(whole(3), Tier::Inference)];
    let both = plan(&world);
    assert_eq!((evicted(&both), both.victims.len()), (vec![2], 2));
}

#[test]
fn a_nominated_pods_hold_is_kept_from_equals_and_yields_to_higher() {
    let hold = PodRecord { reservation: true, ..pod(7, 0, 2, Tier::Training, 0) };
    let leaving = PodRecord { terminating: true, ..pod(1, 0, 2, Tier::Batch, HOUR) };
    let other = pod(2, 2, 2, Tier::Batch, 9 * HOUR);
    let nodes = vec![node(1, 4, vec![leaving, other, hold])];
    let mut world = World::of(nodes, request(whole(2), Tier::Training));
    assert_eq!(evicted(&plan(&world)), [2], "the cards of the nominated pod are not there");
    world.members = vec![request(whole(2), Tier::Inference)];
    assert_eq!(plan(&world).evictions().count(), 0, "higher priority takes the nominated cards");
    world.members[0] = request(whole(2), Tier::Training);
    world.members[0].uid = PodUid(7);
    assert_eq!(plan(&world).evictions().count(), 0, "the nominated pod waits for its own");
}

// Device-true feasibility.
#[test]
fn a_share_is_freed_on_one_card_and_cpu_counts() {
    let share = |uid: u128, device: usize, milli: i64, age: i64, cpu: i64| PodRecord {
        gpu: GpuRequest::Share { milli: MilliGpu::clamped(milli) },
        cpu: MilliCpu(cpu),
        ..pod(uid, device, 1, Tier::Batch, age)
    };
    let pods = vec![
        share(1, 0, 500, MINUTE, 0),
        share(2, 0, 400, HOUR, 0),
        share(3, 1, 500, 2 * MINUTE, 0),
        share(4, 1, 400, 10, 4_000),
    ];
    let mut ask = request(GpuRequest::Share { milli: MilliGpu::clamped(700) }, Tier::Inference);
    let mut world = World::of(vec![node(1, 2, pods)], ask);
    world.nodes[0].cpu = 4_000;
    let on_one_card = plan(&world);
    assert_eq!(evicted(&on_one_card), [3, 4], "both of card 1, not the cheapest of each card");
    assert_eq!(on_one_card.placements[0].devices.0, 0b10);
    ask = request(GpuRequest::Share { milli: MilliGpu::clamped(100) }, Tier::Inference);
    ask.cpu = MilliCpu(1_000);
    world.members = vec![ask];
    assert_eq!(evicted(&plan(&world)), [4], "the GPU is free, the CPU is not");
}

#[test]
fn a_group_takes_what_frees_most_for_least() {
    let gang_member = |uid: u128, age: i64| pod(uid, 0, 8, Tier::Batch, age);
    let nodes = vec![
        node(1, 8, vec![gang_member(1, 10 * MINUTE)]),
        node(2, 8, vec![gang_member(2, 10 * MINUTE)]),
        node(3, 8, vec![pod(3, 0, 8, Tier::Batch, 15 * MINUTE)]),
        node(4, 8, vec![pod(4, 0, 8, Tier::Batch, 16 * MINUTE)]),
    ];
    let mut world = World::of(nodes, request(whole(8), Tier::Inference));
    under_gang(&mut world, Gang { disruption: Disruption::All, min_members: 2 }, 1..=2);
    assert_eq!(evicted(&plan(&world)), [3], "one pod: the gang would lose 20 minutes");
    let mut second = world.members[0];
    second.uid = PodUid(0xffff_0001);
    world.members.push(second);
    let both = plan(&world);
    assert_eq!(evicted(&both), [1, 2], "two pods: the gang frees both nodes for 20 minutes");
    assert_eq!(both.placements.len(), 2);
    assert_ne!(both.placements[0].node, both.placements[1].node);
}

#[test]
fn nothing_is_evicted_where_the_pod_fits_already() {
    let world = World::of(
        vec![node(1, 4, vec![pod(1, 0, 2, Tier::Batch, HOUR)])],
        request(whole(2), Tier::Inference),
    );
    let plan = plan(&world);
    assert!(plan.victims.is_empty());
    assert_eq!(plan.placements[0].devices.0, 0b1100);
}
