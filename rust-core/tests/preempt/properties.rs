//! Random small clusters: optimal on one node, near the optimum for groups, minimal, feasible, deterministic.

use mortise_core::preempt::{Cost, Outcome, Plan, UnitKind};
use mortise_core::{Candidates, Cluster, NodeKey, NodeRef, PodUid};

use crate::oracle::Oracle;
use crate::world::{NOW, Size, World, random_world};

const ONE: Size = Size { nodes: 3, cards: 4, pods_per_node: 5, members: 1, unknown: false };
const GROUP: Size = Size { nodes: 4, cards: 3, pods_per_node: 3, members: 4, unknown: false };
const MANY: Size = Size { nodes: 12, cards: 8, pods_per_node: 9, members: 1, unknown: false };

fn evicted(plan: &Plan) -> Vec<PodUid> {
    plan.evictions().map(|victim| victim.uid).collect()
}

/// Worlds small enough for every victim set to be tried.
fn worlds(
    seeds: std::ops::Range<u64>,
    size: Size,
    most: usize,
) -> impl Iterator<Item = (u64, World)> {
    seeds
        .map(move |seed| (seed, random_world(seed, size)))
        .filter(move |(_, world)| Oracle::new(world).candidates.len() <= most)
}

#[test]
fn single_node_plans_equal_the_optimum() {
    let (mut plans, mut none) = (0, 0);
    let tied = worlds(6_000..10_000, ONE, 9).map(|(seed, world)| (seed, world.tied()));
    for (seed, world) in worlds(0..6_000, ONE, 9).chain(tied) {
        let best = Oracle::new(&world).best_for_one();
        match (world.plan(), best) {
            (Outcome::Plan(plan), Some((cost, key))) => {
                let node = plan.placements[0].node;
                let (cluster, _) = world.cluster_without(|_| false);
                assert_eq!(plan.cost, cost, "seed {seed}");
                assert_eq!(cluster.key(node.index as usize).0, key, "seed {seed}");
                assert!(plan.optimal, "seed {seed}");
                plans += usize::from(plan.cost.units > 0);
            }
            (Outcome::NoPlan(_), None) => none += 1,
            (ours, theirs) => panic!("seed {seed}: {ours:?} but the oracle has {theirs:?}"),
        }
    }
    assert!(plans > 1_000 && none > 300, "{plans} plans, {none} without one: too few of a kind");
}

/// What one node offers, worked out alone: nothing is left out for what another node costs.
fn offer(world: &World, cluster: &Cluster, node: NodeRef) -> Option<(Cost, NodeKey, Vec<PodUid>)> {
    let outcome = world.plan_among(cluster, Candidates::Refs(&[node]), NOW);
    let plan = outcome.plan()?;
    Some((plan.cost, cluster.key(node.index as usize), evicted(plan)))
}

#[test]
fn leaving_nodes_out_early_changes_no_choice() {
    let (mut tied, mut compared) = (0, 0);
    for seed in 60_000..70_000 {
        let mut world = random_world(seed, MANY);
        if seed % 2 == 1 {
            world = world.tied();
        }
        let (cluster, nodes) = world.cluster_without(|_| false);
        let mut offers: Vec<_> =
            nodes.iter().filter_map(|&node| offer(&world, &cluster, node)).collect();
        offers.sort();
        let outcome = world.plan_among(&cluster, Candidates::All, NOW);
        let Outcome::Plan(plan) = outcome else {
            assert!(offers.is_empty(), "seed {seed}: no plan, but {offers:?}");
            continue;
        };
        let key = |node: NodeRef| cluster.key(node.index as usize);
        let (cost, winner, victims) = offers.remove(0);
        assert_eq!((plan.cost, key(plan.placements[0].node)), (cost, winner), "seed {seed}");
        assert_eq!(evicted(&plan), victims, "seed {seed}");
        let runners: Vec<_> =
            plan.runner_ups.iter().map(|node| (node.cost, key(node.node))).collect();
        let expected: Vec<_> =
            offers.iter().take(runners.len()).map(|&(cost, key, _)| (cost, key)).collect();
        assert_eq!(runners, expected, "seed {seed}");
        assert_eq!(runners.len(), offers.len().min(world.policy.runner_ups), "seed {seed}");
        compared += usize::from(cost.units > 0);
        let equal = |&(other, ..): &(Cost, _, _)| other.of_victims() == cost.of_victims();
        tied += usize::from(cost.units > 0 && offers.iter().any(equal));
    }
    assert!(compared > 1_000 && tied > 100, "{compared} plans, {tied} ties: too few of a kind");
}

#[test]
fn the_stated_cost_is_the_cost_of_the_victims() {
    for size in [ONE, GROUP] {
        for (seed, world) in worlds(10_000..12_000, size, 16) {
            let Outcome::Plan(plan) = world.plan() else { continue };
            let cost = Oracle::new(&world).cost(&evicted(&plan)).expect("an allowed victim set");
            assert_eq!(plan.cost.of_victims(), cost, "seed {seed}");
            let milli: u64 = plan.evictions().map(|victim| u64::from(victim.milli)).sum();
            assert_eq!(plan.evicted_milli, milli, "seed {seed}");
        }
    }
}

/// Without any one unit of the victims the members do not fit; with all of them they do.
#[test]
fn plans_are_feasible_and_minimal() {
    for (size, unknown) in [(ONE, false), (GROUP, false), (ONE, true)] {
        for (seed, world) in worlds(20_000..22_000, Size { unknown, ..size }, 16) {
            let Outcome::Plan(plan) = world.plan() else { continue };
            let oracle = Oracle::new(&world);
            let victims = evicted(&plan);
            assert!(oracle.group_fits(&victims), "seed {seed}: the members do not fit");
            for left_out in &plan.victims {
                if left_out.kind == UnitKind::Terminating {
                    continue;
                }
                let fewer: Vec<PodUid> = plan
                    .evictions()
                    .filter(|victim| match left_out.kind {
                        UnitKind::Gang => {
                            victim.gang != left_out.gang || victim.kind != UnitKind::Gang
                        }
                        _ => victim.uid != left_out.uid,
                    })
                    .map(|victim| victim.uid)
                    .collect();
                let needed =
                    oracle.cost(&fewer).is_none() || !needed_on_node(&oracle, &plan, &fewer, size);
                assert!(needed, "seed {seed}: {} is not needed in {plan:?}", left_out.uid);
            }
        }
    }
}

fn needed_on_node(oracle: &Oracle<'_>, plan: &Plan, fewer: &[PodUid], size: Size) -> bool {
    // A group may be placed differently with fewer victims only where the optimum was missed, which the next test
    // bounds; on its own nodes every victim is needed.
    if size.members == 1 { oracle.group_fits(fewer) } else { oracle.group_fits_on(plan, fewer) }
}

#[test]
fn group_plans_are_within_five_percent_on_average() {
    let (mut ours, mut best, mut compared, mut higher) = (0.0, 0.0, 0, 0);
    for (seed, world) in worlds(30_000..33_000, GROUP, 10) {
        let oracle = Oracle::new(&world).best_for_group();
        match (world.plan(), oracle) {
            (Outcome::Plan(plan), Some(cost)) => {
                let cost_of_plan = plan.cost.of_victims();
                assert!(cost_of_plan >= cost, "seed {seed}: better than the best");
                let rank = |cost: Cost| (cost.budget_violations, cost.tier1_units);
                if rank(cost_of_plan) != rank(cost) {
                    higher += 1;
                } else if cost.lost_milli_gpu_seconds > 0 {
                    let lost = cost_of_plan.lost_milli_gpu_seconds as f64;
                    ours += lost / cost.lost_milli_gpu_seconds as f64;
                    best += 1.0;
                }
                compared += 1;
            }
            (Outcome::NoPlan(_), None) => {}
            (ours, theirs) => panic!("seed {seed}: {ours:?} but the oracle has {theirs:?}"),
        }
    }
    assert!(best > 300.0, "only {best} of {compared} groups could be compared");
    assert!(ours / best <= 1.05, "{:.4} times the optimum", ours / best);
    assert!(higher * 50 <= compared, "{higher} of {compared} take more of a higher tier");
    println!(
        "{:.4} times the optimum over {best} groups; {higher} of {compared} rank higher",
        ours / best
    );
}

#[test]
fn the_same_inputs_give_the_same_plan_whatever_the_order_of_nodes() {
    for (seed, world) in worlds(40_000..41_000, ONE, 16) {
        let plan = world.plan();
        assert_eq!(plan, world.plan(), "seed {seed}");
        let mut turned = world.clone();
        turned.nodes.reverse();
        turned.facts.reverse();
        if let (Outcome::Plan(a), Outcome::Plan(b)) = (&plan, &turned.plan()) {
            assert_eq!(a.cost, b.cost, "seed {seed}");
            assert_eq!(evicted(a), evicted(b), "seed {seed}");
        }
    }
}

#[test]
fn a_small_budget_still_gives_a_valid_plan() {
    for (seed, mut world) in worlds(50_000..51_000, GROUP, 16) {
        world.policy.expansions = 12;
        let Outcome::Plan(plan) = world.plan() else { continue };
        let oracle = Oracle::new(&world);
        assert!(oracle.group_fits(&evicted(&plan)), "seed {seed}");
        assert!(oracle.cost(&evicted(&plan)).is_some(), "seed {seed}");
    }
}
