//! All runs of an experiment over some threads, which steal work from each other. The result depends on neither their
//! number nor their order.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crossbeam_deque::{Injector, Steal, Stealer, Worker};

use super::run::{Run, RunError, run};
use super::{Policy, Setup};
use crate::trace::Trace;

/// Which runs to do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The traces.
    pub traces: Vec<Trace>,
    /// The policies.
    pub policies: Vec<Policy>,
    /// The seeds.
    pub seeds: Vec<u64>,
}

/// One run of a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunSpec {
    /// Index of the trace.
    pub trace: usize,
    /// The policy.
    pub policy: Policy,
    /// The seed.
    pub seed: u64,
}

impl Plan {
    /// All runs: by trace, then policy, then seed, each in the order given.
    pub fn runs(&self) -> Vec<RunSpec> {
        let mut runs = Vec::new();
        for trace in 0..self.traces.len() {
            for &policy in &self.policies {
                runs.extend(self.seeds.iter().map(|&seed| RunSpec { trace, policy, seed }));
            }
        }
        runs
    }
}

/// Does all runs of `plan` on `jobs` threads (at least one) and returns them in the plan's order. `done` is called from
/// those threads after every run.
///
/// # Errors
/// The first error in the plan's order among the runs that were done; after an error no more are started.
pub fn sweep(
    setup: &Setup,
    plan: &Plan,
    jobs: usize,
    done: impl Fn(&Run) + Sync,
) -> Result<Vec<Run>, RunError> {
    let specs = plan.runs();
    let results: Vec<Mutex<Option<Result<Run, RunError>>>> =
        specs.iter().map(|_| Mutex::new(None)).collect();
    let failed = AtomicBool::new(false);
    let perform = |index: usize| {
        let RunSpec { trace, policy, seed } = specs[index];
        let result = run(setup, &plan.traces[trace], policy, seed);
        match &result {
            Ok(run) => done(run),
            Err(_) => failed.store(true, Ordering::Relaxed),
        }
        *results[index].lock().expect("no holder of this lock panics") = Some(result);
        !failed.load(Ordering::Relaxed)
    };
    steal_all(specs.len(), jobs, perform);
    let result = |slot: Mutex<Option<_>>| slot.into_inner().expect("no holder panicked");
    results.into_iter().filter_map(result).collect()
}

/// Calls `perform` once for every index below `count` until it returns false.
pub(crate) fn steal_all(count: usize, jobs: usize, perform: impl Fn(usize) -> bool + Sync) {
    let queue = Injector::new();
    (0..count).for_each(|index| queue.push(index));
    let threads = jobs.clamp(1, count.max(1));
    let workers: Vec<Worker<usize>> = (0..threads).map(|_| Worker::new_fifo()).collect();
    let stealers: Vec<Stealer<usize>> = workers.iter().map(Worker::stealer).collect();
    let (queue, stealers, perform) = (&queue, &stealers, &perform);
    thread::scope(|scope| {
        for worker in workers {
            scope.spawn(move || while next(&worker, queue, stealers).is_some_and(perform) {});
        }
    });
}

fn next(own: &Worker<usize>, queue: &Injector<usize>, others: &[Stealer<usize>]) -> Option<usize> {
    loop {
        if let Some(index) = own.pop() {
            return Some(index);
        }
        match queue.steal().or_else(|| others.iter().map(Stealer::steal).collect()) {
            Steal::Success(index) => return Some(index),
            Steal::Empty => return None,
            Steal::Retry => {}
        }
    }
}
