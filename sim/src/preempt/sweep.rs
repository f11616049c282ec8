//! All runs of the experiment over some threads; the result depends on neither their number nor their order.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use mortise_core::Error;

use super::measure::Run;
use super::policy::Policy;
use super::run::run;
use super::setup::Setup;
use crate::pack::steal_all;

/// Does every policy with every seed on `jobs` threads, by policy, then seed. `done` is called after each run.
///
/// # Errors
/// The first error in that order among the runs that were done; after an error no more are started.
pub fn sweep(
    setup: &Setup,
    policies: &[Policy],
    seeds: &[u64],
    jobs: usize,
    done: impl Fn(&Run) + Sync,
) -> Result<Vec<Run>, Error> {
    let specs: Vec<(Policy, u64)> =
        policies.iter().flat_map(|&policy| seeds.iter().map(move |&seed| (policy, seed))).collect();
    let results: Vec<Mutex<Option<Result<Run, Error>>>> =
        specs.iter().map(|_| Mutex::new(None)).collect();
    let failed = AtomicBool::new(false);
    steal_all(specs.len(), jobs, |index| {
        let (policy, seed) = specs[index];
        let result = run(setup, policy, seed);
        match &result {
            Ok(run) => done(run),
            Err(_) => failed.store(true, Ordering::Relaxed),
        }
        *results[index].lock().expect("no holder of this lock panics") = Some(result);
        !failed.load(Ordering::Relaxed)
    });
    let result = |slot: Mutex<Option<_>>| slot.into_inner().expect("no holder panicked");
    results.into_iter().filter_map(result).collect()
}
