//! Work that may be shared out. The kernel starts no thread of its own: a caller that has cores to spare hands them in
//! for the length of a call.

/// Runs the parts of one call. How many parts there are, and in which order and on which threads they run, changes how
/// long an answer takes, never what it is.
pub trait Workers {
    /// Into how many parts work over this many nodes should be split; up to [`MAX_PARTS`] are made, and at least 1.
    /// Asked only where every node has to be looked at anew.
    fn parts(&self, nodes: usize) -> usize;

    /// Runs every job once, in any order and on any threads, and returns when all have ended. A panic of a job must
    /// reach the caller.
    fn run(&self, jobs: &mut [&mut (dyn FnMut() + Send)]);
}

/// More parts than this are never made: each needs tables of its own.
pub const MAX_PARTS: usize = 64;

/// Everything on the thread that calls.
#[derive(Clone, Copy, Debug, Default)]
pub struct OneThread;

impl Workers for OneThread {
    fn parts(&self, _nodes: usize) -> usize {
        1
    }

    fn run(&self, jobs: &mut [&mut (dyn FnMut() + Send)]) {
        jobs.iter_mut().for_each(|job| job());
    }
}
