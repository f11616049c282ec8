//! A proven ceiling: how much GPU *any* policy could have in use at the end of one sequence of arrivals.
//!
//! # What it bounds
//! Policies that turn away no pod of at most one GPU without a model constraint among the first arrivals (up to a load
//! that the caller names), place later pods as they like, know the future if they like, and move no pod. Without the
//! first condition a policy could refuse every pod that leaves an awkward rest, and little below 100 % could be proven.
//!
//! # Why it holds
//! Kinds k of pod have g_k thousandths of a GPU over n_k devices, cpu_k, and the classes of node (model, number of
//! devices) they may run on; class c has D_c devices and CPU_c. Let x_kc pods of kind k end up on class c. Then
//! X_k = sum_c x_kc lies between lo_k (those that must be accepted) and hi_k (those that arrive). For *any* prices
//! w_k per pod and l_c >= 0 per CPU, with f_kc = floor(l_c cpu_k):
//!
//! ```text
//! sum_k g_k X_k = sum_k (g_k - w_k) X_k                        [1]
//!               + sum_c sum_k (w_k - f_kc) x_kc                [2]
//!               + sum_c sum_k f_kc x_kc                        [3]
//! ```
//! - \[1\] is at most sum_k max((g_k - w_k) lo_k, (g_k - w_k) hi_k).
//! - \[2\]: split the value of a pod evenly over its n_k devices. One device holds either one part of a pod of whole
//!   devices or shares that add up to at most 1000, so its value is at most u_c, the best of the single parts, of an
//!   unbounded knapsack of shares, and of nothing. Hence \[2\] is at most sum_c D_c u_c. Pods without a GPU sit on no
//!   device: for them w_k = min_c f_kc, so their terms are not positive.
//! - \[3\] is at most sum_c l_c CPU_c, as the pods of a class cannot use more CPU than it has.
//!
//! The sum of the three bounds is the ceiling (weak duality of the pattern linear program). It is evaluated in integers,
//! rounded up, so it holds whatever prices the search comes up with; the search only makes it small.

mod instance;
mod prices;
mod search;

use std::sync::Mutex;

use instance::Instance;

use crate::pack::{Plan, Run, Setup, steal_all};
use crate::sequence::{SequenceError, target_milli};
use crate::trace::Trace;

/// The ceiling of one sequence of arrivals.
#[derive(Clone, PartialEq, Debug)]
pub struct Ceiling {
    /// Name of the trace.
    pub trace: String,
    /// Seed of the sequence.
    pub seed: u64,
    /// Arrived load in %, up to which the policies meant turn away no unconstrained pod of at most one GPU.
    pub accepted_until: f64,
    /// No such policy has more GPU in use at the end, in % of the cluster.
    pub alloc: f64,
}

/// The ceiling of the sequence of one seed for policies that accept (see the module) until `accepted_until` % of load.
///
/// # Errors
/// Those of [`Sequence::tuned`].
pub fn ceiling(
    setup: &Setup,
    trace: &Trace,
    seed: u64,
    accepted_until: f64,
) -> Result<Ceiling, SequenceError> {
    let capacity = setup.capacity_milli();
    let sequence = setup.arrivals.sequence(trace, capacity, seed)?;
    let until_milli = target_milli(capacity, accepted_until / 100.0);
    let instance = Instance::new(setup, trace, &sequence, until_milli);
    let milli = search::least_bound(&instance);
    let alloc = 100.0 * milli as f64 / capacity as f64;
    Ok(Ceiling { trace: trace.name.clone(), seed, accepted_until, alloc: alloc.min(100.0) })
}

/// The ceilings of all traces and seeds of a plan, for policies that accept at least as long as the best of `runs` on the
/// same sequence does: so no run passes the ceiling, and it is as low as that allows.
///
/// # Errors
/// Those of [`Sequence::tuned`].
pub fn ceilings(
    setup: &Setup,
    plan: &Plan,
    runs: &[Run],
    jobs: usize,
) -> Result<Vec<Ceiling>, SequenceError> {
    let cases: Vec<(&Trace, u64)> = plan
        .traces
        .iter()
        .flat_map(|trace| plan.seeds.iter().map(move |&seed| (trace, seed)))
        .collect();
    let results: Vec<Mutex<Option<Result<Ceiling, SequenceError>>>> =
        cases.iter().map(|_| Mutex::new(None)).collect();
    steal_all(cases.len(), jobs, |index| {
        let (trace, seed) = cases[index];
        let same = runs.iter().filter(|run| run.trace == trace.name && run.seed == seed);
        let best = same.max_by_key(|run| run.gpu.placed_milli);
        let result = ceiling(setup, trace, seed, best.map_or(0.0, |run| run.accepted_until));
        *results[index].lock().expect("no holder of this lock panics") = Some(result);
        true
    });
    let result = |slot: Mutex<Option<_>>| slot.into_inner().expect("no holder panicked");
    results.into_iter().filter_map(result).collect()
}

#[cfg(test)]
mod tests;
