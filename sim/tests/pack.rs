//! The packing experiment on a small generated cluster.

mod common;

use mortise_core::Strategy;
use mortise_sim::ceiling::ceilings;
use mortise_sim::pack::{Mix, Plan, Policy, Run, Setup, Ties, means, sweep};
use mortise_sim::sequence::Arrivals;

fn setup(ties: Ties, mix: Mix) -> Setup {
    Setup { nodes: common::nodes(), arrivals: Arrivals::Published { load: 1.3 }, ties, mix }
}

fn plan(policies: &[Strategy], seeds: u64) -> Plan {
    Plan {
        traces: vec![common::trace("plain", false), common::trace("constrained", true)],
        policies: policies.iter().copied().map(Policy).collect(),
        seeds: (42..42 + seeds).collect(),
    }
}

fn without_times(mut runs: Vec<Run>) -> Vec<Run> {
    runs.iter_mut().for_each(|run| run.us_per_pod = 0.0);
    runs
}

#[test]
fn every_policy_packs_and_accounts_for_every_pod() {
    // A debug build also checks at every rejection that the pod fits nowhere.
    for (ties, mix) in [(Ties::Rank, Mix::Trace), (Ties::Random, Mix::Learned)] {
        let runs = sweep(&setup(ties, mix), &plan(&Strategy::ALL, 1), 2, |_| {}).unwrap();
        assert_eq!(runs.len(), 2 * Strategy::ALL.len());
        for run in &runs {
            let used =
                100.0 * run.gpu.placed_milli as f64 / setup(ties, mix).capacity_milli() as f64;
            let last = run.column(130).expect("the load reaches 130 %");
            assert!(used > 60.0, "{} uses only {used:.1} %", run.policy);
            assert!(
                (last.alloc - used).abs() < 1.0,
                "{}: column {} and sum {used}",
                run.policy,
                last.alloc
            );
            assert!(run.rejected > 0, "{}: 130 % cannot all fit", run.policy);
            assert!(run.gpu.requested_milli > run.gpu.placed_milli);
            assert!(
                last.frag_amount <= 100.0 - last.alloc + 0.01,
                "fragments are part of what is idle"
            );
            assert_eq!(run.constrained.requested_milli > 0, run.trace == "constrained");
            let rising: Vec<f64> =
                run.columns.iter().flatten().map(|column| column.alloc).collect();
            assert!(
                rising.windows(2).all(|pair| pair[1] >= pair[0] - 1e-9),
                "{}: no pod leaves, so allocation never falls",
                run.policy
            );
        }
    }
}

#[test]
fn the_number_of_threads_and_the_company_do_not_matter() {
    let setup = setup(Ties::Random, Mix::Learned);
    let plan = plan(&[Strategy::ExpectedStranding, Strategy::Fgd, Strategy::Random], 3);
    let one = without_times(sweep(&setup, &plan, 1, |_| {}).unwrap());
    let four = without_times(sweep(&setup, &plan, 4, |_| {}).unwrap());
    assert_eq!(one, four);
    let alone = Plan { policies: vec![Policy(Strategy::Fgd)], ..plan.clone() };
    let alone = without_times(sweep(&setup, &alone, 2, |_| {}).unwrap());
    let same: Vec<Run> =
        one.into_iter().filter(|run| run.policy == Policy(Strategy::Fgd)).collect();
    assert_eq!(alone, same, "a run does not depend on the other policies");
}

#[test]
fn the_order_of_the_files_does_not_matter() {
    let ordered = setup(Ties::Rank, Mix::Trace);
    let mut shuffled = ordered.clone();
    shuffled.nodes.reverse();
    let mut plan = plan(&[Strategy::BestFit, Strategy::Fgd], 2);
    let expected = without_times(sweep(&ordered, &plan, 2, |_| {}).unwrap());
    plan.traces.iter_mut().for_each(|trace| trace.pods.reverse());
    assert_eq!(without_times(sweep(&shuffled, &plan, 2, |_| {}).unwrap()), expected);
}

#[test]
fn seeds_and_ties_change_the_result() {
    let plan = plan(&[Strategy::GpuPacking], 2);
    let rank = without_times(sweep(&setup(Ties::Rank, Mix::Trace), &plan, 2, |_| {}).unwrap());
    let random = without_times(sweep(&setup(Ties::Random, Mix::Trace), &plan, 2, |_| {}).unwrap());
    assert_ne!(rank[0].columns, rank[1].columns);
    assert_ne!(rank[0].columns, random[0].columns);
}

#[test]
fn no_run_that_accepts_as_long_passes_the_ceiling() {
    let setup = setup(Ties::Random, Mix::Learned);
    let plan = plan(&[Strategy::ExpectedStranding, Strategy::Fgd, Strategy::BestFit], 2);
    let runs = sweep(&setup, &plan, 2, |_| {}).unwrap();
    let ceilings = ceilings(&setup, &plan, &runs, 2).unwrap();
    assert_eq!(ceilings.len(), plan.traces.len() * plan.seeds.len());
    for run in &runs {
        let ceiling = ceilings.iter().find(|c| c.trace == run.trace && c.seed == run.seed).unwrap();
        let used = 100.0 * run.gpu.placed_milli as f64 / setup.capacity_milli() as f64;
        assert!(
            used <= ceiling.alloc + 1e-9,
            "{} uses {used}, ceiling {}",
            run.policy,
            ceiling.alloc
        );
        assert!(ceiling.alloc > 80.0, "the bound is not vacuous: {}", ceiling.alloc);
    }
}

#[test]
fn expected_stranding_beats_random_placement_here_too() {
    let plan = plan(&[Strategy::ExpectedStranding, Strategy::Random], 3);
    let runs = sweep(&setup(Ties::Random, Mix::Learned), &plan, 2, |_| {}).unwrap();
    for pair in means(&runs).chunks(2) {
        let [ours, random] = [0, 1].map(|index| pair[index].alloc_130.unwrap().mean);
        assert!(ours > random + 1.0, "{}: {ours} against {random}", pair[0].trace);
    }
}

#[test]
fn a_cluster_without_gpus_is_refused() {
    let mut empty = setup(Ties::Random, Mix::Learned);
    empty.nodes.iter_mut().for_each(|node| node.gpus = 0);
    let error = sweep(&empty, &plan(&[Strategy::Fgd], 1), 1, |_| {}).unwrap_err();
    assert!(error.to_string().contains("column gpu"), "{error}");
}
