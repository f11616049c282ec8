//! A job while it lives: what it has done, what it saved, what an eviction costs it.

use super::jobs::JobSpec;
use super::setup::TIER1_GPUS;

/// How a job saves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Saving {
    /// Seconds between checkpoints and the phase of the first; `None` = never.
    pub(super) every: Option<(i64, i64)>,
    /// Seconds a save takes.
    pub(super) save_seconds: i64,
    /// Seconds until it makes progress after an eviction.
    pub(super) restart_seconds: i64,
}

/// One stay on the cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stay {
    pub(super) start: i64,
    /// First second of progress.
    pub(super) works_from: i64,
}

#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) spec: JobSpec,
    pub(super) saving: Saving,
    /// Seconds of work that an eviction cannot take.
    pub(super) done: i64,
    pub(super) stay: Option<Stay>,
    /// Number of its stays, so that events of earlier ones are ignored.
    pub(super) stays: u32,
    pub(super) evictions: u32,
    /// Evictions since it last saved.
    pub(super) unsaved_evictions: u32,
    pub(super) finished: Option<i64>,
    /// Work done when counting started.
    pub(super) done_before: i64,
}

impl Job {
    pub(super) fn new(spec: JobSpec, saving: Saving) -> Self {
        Self {
            spec,
            saving,
            done: 0,
            stay: None,
            stays: 0,
            evictions: 0,
            unsaved_evictions: 0,
            finished: None,
            done_before: 0,
        }
    }

    pub(super) fn is_tier1(&self) -> bool {
        self.spec.gpus >= TIER1_GPUS
    }

    /// Saves when told to stop, if the window is long enough.
    pub(super) fn saves_within(&self, grace: i64) -> bool {
        self.saving.every.is_some() && self.saving.save_seconds <= grace
    }

    pub(super) fn start(&mut self, now: i64) -> i64 {
        let restart = if self.evictions > 0 { self.saving.restart_seconds } else { 0 };
        let works_from = now + restart;
        self.stay = Some(Stay { start: now, works_from });
        self.stays += 1;
        works_from + self.spec.duration_seconds - self.done
    }

    /// Work done at a time, saved or not.
    pub(super) fn progress(&self, now: i64) -> i64 {
        let worked = self.stay.map_or(0, |stay| (now - stay.works_from).max(0));
        (self.done + worked).min(self.spec.duration_seconds)
    }

    /// The last checkpoint of this stay.
    pub(super) fn checkpoint(&self, now: i64) -> Option<i64> {
        let (interval, phase) = self.saving.every?;
        let stay = self.stay?;
        let last = now - (now - phase).rem_euclid(interval);
        (last > stay.works_from).then_some(last)
    }

    /// Seconds of work times its GPUs that an eviction now loses, restart included.
    pub(super) fn lost_gpu_seconds(&self, now: i64, grace: i64) -> i64 {
        let start = self.stay.map_or(now, |stay| stay.start);
        let mut unsafe_for = now - self.checkpoint(now).unwrap_or(start);
        if self.saves_within(grace) {
            unsafe_for = unsafe_for.min(self.saving.save_seconds);
        }
        i64::from(self.spec.gpus) * (unsafe_for + self.saving.restart_seconds)
    }

    /// Ends the stay. Returns when its GPUs are free.
    pub(super) fn evict(&mut self, now: i64, grace: i64) -> i64 {
        let saves = self.saves_within(grace);
        if saves {
            self.done = self.progress(now);
        } else if let (Some(at), Some(stay)) = (self.checkpoint(now), self.stay) {
            self.done += (at - stay.works_from).max(0);
        }
        self.unsaved_evictions =
            if saves || self.checkpoint(now).is_some() { 0 } else { self.unsaved_evictions + 1 };
        self.evictions += 1;
        self.stay = None;
        now + if saves { self.saving.save_seconds } else { grace }
    }
}
