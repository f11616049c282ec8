//! Means over seeds, and our policy beside the best other.

use mortise_core::mig::MigStrategy;

use super::{MigMix, MigRun};
use crate::pack::MeanSd;

/// One mix at one load under one policy, over all seeds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MigMean {
    /// The mix.
    pub mix: MigMix,
    /// The load.
    pub load: f64,
    /// The policy.
    pub policy: MigStrategy,
    /// Number of seeds.
    pub seeds: usize,
    /// Requests accepted of those that arrived.
    pub accepted_ratio: f64,
    /// Slices accepted of those asked for: mean over seeds and standard deviation.
    pub accepted_slices_ratio: MeanSd,
    /// Cards in use.
    pub cards_used: f64,
    /// Time per request, microseconds.
    pub us_per_request: f64,
}

/// Groups runs that follow each other with the same load, mix and policy.
#[must_use]
pub fn mig_means(runs: &[MigRun]) -> Vec<MigMean> {
    let key = |run: &MigRun| (run.spec.mix, run.spec.load, run.spec.policy);
    runs.chunk_by(|a, b| key(a) == key(b)).filter_map(mean).collect()
}

fn mean(runs: &[MigRun]) -> Option<MigMean> {
    let over = |of: fn(&MigRun) -> f64| MeanSd::of(runs.iter().map(of));
    let spec = runs.first()?.spec;
    Some(MigMean {
        mix: spec.mix,
        load: spec.load,
        policy: spec.policy,
        seeds: runs.len(),
        accepted_ratio: over(|run| run.accepted as f64 / run.requests.max(1) as f64)?.mean,
        accepted_slices_ratio: over(|run| 1.0 - run.rejected_slices_ratio())?,
        cards_used: over(|run| run.cards_used)?.mean,
        us_per_request: over(|run| run.us_per_request)?.mean,
    })
}

/// Expected stranding beside the best other policy of one mix at one load, over the seeds they share.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MigComparison {
    /// The mix.
    pub mix: MigMix,
    /// The load.
    pub load: f64,
    /// The other policy with the fewest slices rejected.
    pub best_other: MigStrategy,
    /// Slices rejected, as a multiple of the best other's; none if that rejected nothing.
    pub rejected_ratio: Option<f64>,
    /// Difference of the shares rejected, ours less the other's, paired by seed.
    pub difference: f64,
    /// Two standard errors of `difference`.
    pub interval: f64,
}

/// One comparison for each load and mix that has our policy and another one.
#[must_use]
pub fn mig_comparisons(runs: &[MigRun]) -> Vec<MigComparison> {
    let key = |run: &MigRun| (run.spec.mix, run.spec.load);
    runs.chunk_by(|a, b| key(a) == key(b)).filter_map(compare).collect()
}

fn compare(runs: &[MigRun]) -> Option<MigComparison> {
    let rejected = |policy: MigStrategy| -> Vec<f64> {
        let of = runs.iter().filter(|run| run.spec.policy == policy);
        of.map(MigRun::rejected_slices_ratio).collect()
    };
    let ours = rejected(MigStrategy::ExpectedStranding);
    let own = MeanSd::of(ours.iter().copied())?.mean;
    let others = MigStrategy::ALL.into_iter().skip(1);
    let (best_other, theirs, least) = others
        .filter_map(|policy| {
            let values = rejected(policy);
            let mean = MeanSd::of(values.iter().copied())?.mean;
            Some((policy, values, mean))
        })
        .min_by(|a, b| a.2.total_cmp(&b.2))?;
    let paired = MeanSd::of(ours.iter().zip(&theirs).map(|(ours, theirs)| ours - theirs))?;
    Some(MigComparison {
        mix: runs[0].spec.mix,
        load: runs[0].spec.load,
        best_other,
        rejected_ratio: (least > 0.0).then(|| own / least),
        difference: paired.mean,
        interval: 2.0 * paired.sd / (ours.len() as f64).sqrt(),
    })
}
