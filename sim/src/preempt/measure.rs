//! What a run is judged by.

use std::time::Duration;

use super::job::Job;
use super::policy::Policy;
use super::setup::{CARDS_PER_NODE, Setup};

/// The figures of one run, over the measured days.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Run {
    /// The policy.
    pub policy: Policy,
    /// The seed.
    pub seed: u64,
    /// Work lost by evictions, restarts included.
    pub lost_gpu_hours: f64,
    /// Jobs evicted, each time.
    pub evictions: u64,
    /// Of these of tier 1.
    pub tier1_evictions: u64,
    /// Most evictions of one job since it last saved.
    pub max_unsaved_evictions: u32,
    /// Evicted GPUs per GPU that inference asked for.
    pub evicted_per_requested: f64,
    /// Median wait of inference pods.
    pub tier0_wait_p50_seconds: f64,
    /// 99th percentile of it.
    pub tier0_wait_p99_seconds: f64,
    /// Mean time from submission to completion; unfinished jobs count until the end.
    pub jct_mean_seconds: f64,
    /// 99th percentile of it.
    pub jct_p99_seconds: f64,
    /// Work that was not redone, of the cluster's GPU time.
    pub goodput: f64,
    /// GPU time in use, of the cluster's.
    pub utilisation: f64,
    /// Members of gangs evicted without the rest.
    pub gangs_broken: u64,
    /// Median time of planning.
    pub plan_us_p50: f64,
    /// 99th percentile of it.
    pub plan_us_p99: f64,
}

/// Gathers the figures while a run goes on.
pub(super) struct Measure {
    start: i64,
    end: i64,
    last: i64,
    used_gpu_seconds: i64,
    inference_gpu_seconds: i64,
    lost_gpu_seconds: i64,
    evictions: u64,
    tier1_evictions: u64,
    max_unsaved_evictions: u32,
    evicted_gpus: u64,
    requested_gpus: u64,
    gangs_broken: u64,
    waits: Vec<i64>,
    plans_us: Vec<f64>,
}

impl Measure {
    pub(super) fn new(setup: &Setup) -> Self {
        Self {
            start: setup.start_seconds(),
            end: setup.end_seconds(),
            last: setup.start_seconds(),
            used_gpu_seconds: 0,
            inference_gpu_seconds: 0,
            lost_gpu_seconds: 0,
            evictions: 0,
            tier1_evictions: 0,
            max_unsaved_evictions: 0,
            evicted_gpus: 0,
            requested_gpus: 0,
            gangs_broken: 0,
            waits: Vec::new(),
            plans_us: Vec::new(),
        }
    }

    /// The same GPUs were in use until now.
    pub(super) fn advance(&mut self, now: i64, used: u32, inference: u32) {
        let span = now - self.last;
        if span > 0 {
            self.used_gpu_seconds += span * i64::from(used);
            self.inference_gpu_seconds += span * i64::from(inference);
            self.last = now;
        }
    }

    pub(super) fn requested(&mut self, now: i64, gpus: u32) {
        if now >= self.start {
            self.requested_gpus += u64::from(gpus);
        }
    }

    /// An inference pod got its cards, or was taken back without.
    pub(super) fn waited(&mut self, created: i64, until: i64) {
        if created >= self.start {
            self.waits.push(until - created);
        }
    }

    pub(super) fn planned(&mut self, now: i64, took: Duration) {
        if now >= self.start {
            self.plans_us.push(took.as_secs_f64() * 1e6);
        }
    }

    pub(super) fn broke(&mut self, now: i64, members: u32) {
        if now >= self.start {
            self.gangs_broken += u64::from(members);
        }
    }

    pub(super) fn evicted(&mut self, now: i64, job: &Job, lost_gpu_seconds: i64) {
        if now >= self.start {
            self.lost_gpu_seconds += lost_gpu_seconds;
            self.evictions += 1;
            self.tier1_evictions += u64::from(job.is_tier1());
            self.evicted_gpus += u64::from(job.spec.gpus);
            self.max_unsaved_evictions = self.max_unsaved_evictions.max(job.unsaved_evictions);
        }
    }

    pub(super) fn finish(
        mut self,
        policy: Policy,
        seed: u64,
        setup: &Setup,
        jobs: &[Job],
        used: u32,
    ) -> Run {
        self.advance(self.end, used, 0);
        let capacity = f64::from(setup.nodes * CARDS_PER_NODE) * (self.end - self.start) as f64;
        let useful: i64 = jobs
            .iter()
            .map(|job| i64::from(job.spec.gpus) * (job.progress(self.end) - job.done_before))
            .sum();
        let mut completion: Vec<f64> = jobs
            .iter()
            .filter(|job| job.spec.submit_seconds >= self.start)
            .map(|job| (job.finished.unwrap_or(self.end) - job.spec.submit_seconds) as f64)
            .collect();
        let mut waits: Vec<f64> = self.waits.iter().map(|&wait| wait as f64).collect();
        let mean = completion.iter().sum::<f64>() / completion.len().max(1) as f64;
        Run {
            policy,
            seed,
            lost_gpu_hours: self.lost_gpu_seconds as f64 / 3_600.0,
            evictions: self.evictions,
            tier1_evictions: self.tier1_evictions,
            max_unsaved_evictions: self.max_unsaved_evictions,
            evicted_per_requested: self.evicted_gpus as f64 / self.requested_gpus.max(1) as f64,
            tier0_wait_p50_seconds: percentile(&mut waits, 50),
            tier0_wait_p99_seconds: percentile(&mut waits, 99),
            jct_mean_seconds: mean,
            jct_p99_seconds: percentile(&mut completion, 99),
            goodput: (useful + self.inference_gpu_seconds) as f64 / capacity,
            utilisation: self.used_gpu_seconds as f64 / capacity,
            gangs_broken: self.gangs_broken,
            plan_us_p50: percentile(&mut self.plans_us, 50),
            plan_us_p99: percentile(&mut self.plans_us, 99),
        }
    }
}

/// The value below which `percent` of the values lie (nearest rank); 0 without any.
fn percentile(values: &mut [f64], percent: usize) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    values.sort_by(f64::total_cmp);
    let rank = (values.len() * percent).div_ceil(100).max(1);
    values[rank - 1]
}

#[cfg(test)]
mod tests {
    use super::percentile;

    #[test]
    fn percentiles_are_nearest_ranks() {
        let mut values: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        assert_eq!(percentile(&mut values, 50), 100.0);
        assert_eq!(percentile(&mut values, 99), 198.0);
        assert_eq!(percentile(&mut [7.0], 99), 7.0);
        assert_eq!(percentile(&mut [], 50), 0.0);
    }
}
