//! Preemption: bars per policy with each seed's run as a dot, ratios to the baseline, a table.

use std::io::{self, Write};

use serde::Serialize;

use super::{View, write_page};
use crate::preempt::{Comparison, Mean, Ratio, Run, Setup};

const VIEW: View = View {
    title: "Mortise: preemption report",
    body: include_str!("preempt.html"),
    script: include_str!("preempt.js"),
};

/// What the page shows.
pub struct PreemptReport<'a> {
    /// The experiment.
    pub setup: &'a Setup,
    /// All runs.
    pub runs: &'a [Run],
    /// Their means by policy.
    pub means: &'a [Mean],
    /// Policies beside the baseline; may be empty.
    pub comparisons: &'a [Comparison],
}

#[derive(Serialize)]
struct Page<'a> {
    nodes: u32,
    gpus: u32,
    jobs: usize,
    warm_up_days: i64,
    measured_days: i64,
    seeds: usize,
    baseline: Option<&'static str>,
    policies: Vec<PolicyData<'a>>,
}

#[derive(Serialize)]
struct PolicyData<'a> {
    policy: &'a str,
    mean: Figures,
    seeds: Vec<Figures>,
    /// Mean and half width of the 95 % interval.
    lost_ratio: Option<[Option<f64>; 2]>,
    tier1_ratio: Option<[Option<f64>; 2]>,
    jct_ratio: Option<[Option<f64>; 2]>,
}

#[derive(Serialize)]
struct Figures {
    lost_gpu_hours: f64,
    evictions: f64,
    tier1_evictions: f64,
    max_unsaved_evictions: u32,
    evicted_per_requested: f64,
    wait_p50_seconds: f64,
    wait_p99_seconds: f64,
    jct_mean_hours: f64,
    jct_p99_hours: f64,
    goodput_percent: f64,
    in_use_percent: f64,
    gangs_broken: u64,
    plan_p99_us: f64,
}

impl Figures {
    fn of(run: &Run, evictions: f64, tier1_evictions: f64, gangs_broken: u64) -> Self {
        let short = |value: f64| (value * 1e4).round() / 1e4;
        Self {
            lost_gpu_hours: short(run.lost_gpu_hours),
            evictions: short(evictions),
            tier1_evictions: short(tier1_evictions),
            max_unsaved_evictions: run.max_unsaved_evictions,
            evicted_per_requested: short(run.evicted_per_requested),
            wait_p50_seconds: short(run.tier0_wait_p50_seconds),
            wait_p99_seconds: short(run.tier0_wait_p99_seconds),
            jct_mean_hours: short(run.jct_mean_seconds / 3_600.0),
            jct_p99_hours: short(run.jct_p99_seconds / 3_600.0),
            goodput_percent: short(run.goodput * 100.0),
            in_use_percent: short(run.utilisation * 100.0),
            gangs_broken,
            plan_p99_us: short(run.plan_us_p99),
        }
    }

    fn of_run(run: &Run) -> Self {
        Self::of(run, run.evictions as f64, run.tier1_evictions as f64, run.gangs_broken)
    }

    fn of_mean(mean: &Mean) -> Self {
        Self::of(&mean.run, mean.evictions, mean.tier1_evictions, mean.gangs_broken)
    }
}

impl PreemptReport<'_> {
    /// Writes the page.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        write_page(out, &VIEW, &self.page())
    }

    fn page(&self) -> Page<'_> {
        let policies: Vec<PolicyData<'_>> =
            self.means.iter().map(|mean| self.policy(mean)).collect();
        Page {
            nodes: self.setup.nodes,
            gpus: self.setup.gpus(),
            jobs: self.setup.jobs.jobs.len(),
            warm_up_days: self.setup.warm_up_days,
            measured_days: self.setup.measured_days,
            seeds: policies.first().map_or(0, |policy| policy.seeds.len()),
            baseline: self.comparisons.first().map(|row| row.baseline.name()),
            policies,
        }
    }

    fn policy(&self, mean: &Mean) -> PolicyData<'_> {
        let policy = mean.run.policy;
        let beside = self.comparisons.iter().find(|row| row.policy == policy);
        let ratio = |of: fn(&Comparison) -> Ratio| {
            beside.map(of).map(|ratio| [Some(ratio.mean), ratio.half_width])
        };
        PolicyData {
            policy: policy.name(),
            mean: Figures::of_mean(mean),
            seeds: self
                .runs
                .iter()
                .filter(|run| run.policy == policy)
                .map(Figures::of_run)
                .collect(),
            lost_ratio: ratio(|row| row.lost),
            tier1_ratio: ratio(|row| row.tier1_evictions),
            jct_ratio: ratio(|row| row.completion),
        }
    }
}
