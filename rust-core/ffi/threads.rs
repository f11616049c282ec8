//! The threads that a host lets a call use. They live no longer than the call.

use std::panic::resume_unwind;

use crossbeam::queue::ArrayQueue;
use mortise_core::{MAX_PARTS, Workers};

use crate::abi;
use crate::fault::Fault;

const _: () = assert!(abi::MORTISE_MAX_THREADS as usize == MAX_PARTS);

/// Nodes that make a thread worth its start, which takes as long as a hundred of them.
const NODES_PER_THREAD: usize = 1024;

/// Up to this many threads, that of the caller among them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Threads(usize);

impl Threads {
    /// `count` as in `mortise_config.threads`.
    pub(crate) fn new(count: u32) -> Result<Self, Fault> {
        if count > abi::MORTISE_MAX_THREADS {
            return Err(Fault::limit("config.threads", count, abi::MORTISE_MAX_THREADS));
        }
        Ok(Self(count.max(1) as usize))
    }
}

impl Workers for Threads {
    fn parts(&self, nodes: usize) -> usize {
        self.0.min(nodes / NODES_PER_THREAD).max(1)
    }

    fn run(&self, jobs: &mut [&mut (dyn FnMut() + Send)]) {
        let count = jobs.len();
        let queue = ArrayQueue::new(count.max(1));
        for job in jobs {
            // There is room for all.
            drop(queue.push(job));
        }
        let work = || {
            while let Some(job) = queue.pop() {
                job();
            }
        };
        let outcome = crossbeam::thread::scope(|scope| {
            for _ in 1..count {
                // A thread that cannot be had is one fewer to share the work.
                let _ = scope.builder().name("mortise".into()).spawn(|_| work());
            }
            work();
        });
        if let Err(panic) = outcome {
            resume_unwind(panic);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn run(count: usize, job: &(impl Fn(usize) + Sync)) {
        let mut jobs: Vec<_> = (0..count).map(|number| move || job(number)).collect();
        let mut jobs: Vec<&mut (dyn FnMut() + Send)> =
            jobs.iter_mut().map(|job| job as &mut (dyn FnMut() + Send)).collect();
        Threads(count).run(&mut jobs);
    }

    #[test]
    fn every_job_runs_once() {
        for count in [0, 1, 2, 5, 64] {
            let ran: Vec<AtomicUsize> = (0..count).map(|_| AtomicUsize::new(0)).collect();
            run(count, &|number| {
                ran[number].fetch_add(1, Ordering::Relaxed);
            });
            assert!(ran.iter().all(|runs| runs.load(Ordering::Relaxed) == 1), "{count}: {ran:?}");
        }
    }

    #[test]
    fn a_panic_reaches_the_caller() {
        for bad in 0..4 {
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                run(4, &|number| assert_ne!(number, bad, "a part that fails"));
            }));
            assert!(outcome.is_err(), "job {bad}");
        }
    }

    #[test]
    fn small_clusters_are_left_to_the_caller() {
        let parts = |threads, nodes| Threads::new(threads).ok().map(|t| t.parts(nodes));
        assert_eq!(parts(0, 100_000), Some(1));
        assert_eq!(parts(4, 1_213), Some(1));
        assert_eq!(parts(4, 5_000), Some(4));
        assert_eq!(parts(64, 100_000), Some(64));
        assert_eq!(parts(65, 100_000), None);
    }
}
