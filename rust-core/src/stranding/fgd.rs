//! The fragment amount of Fragmentation Gradient Descent (Weng et al., USENIX ATC 2023; scheduling-quality notes,
//! C.6), in integers: for comparison, and for reports that can be read beside published ones.
//!
//! For a node with R idle milli-GPU and a kind m, the fragment is R if m cannot run there (CPU-only, model, CPU, too
//! few devices with enough free), else the idle GPU on devices too small for m. F is the weighted mean over the
//! typical pods. Amounts are kept as sums of weight x milli-GPU, so differences are exact; weights sum to at most
//! 2^33 and R is at most 16,000, so an amount of a node is below 2^47 and of a cluster below 2^64.

use super::choice;
use super::mix::Mix;
use super::params::TYPICAL_COVERAGE_PERMILLE;
use super::shape::{Shape, clamp_cpu};
use crate::cluster::FreeShape;
use crate::limits::MAX_GPUS_PER_NODE;
use crate::request::{GpuRequest, Kind};
use crate::score::first_whole;
use crate::units::{DeviceMask, MilliGpu};

/// The typical pods of a workload.
#[derive(Clone, Debug, Default)]
pub struct TypicalPods {
    mix: Mix,
    /// Weight of CPU-only kinds: all idle GPU is a fragment to them.
    cpu_only: u64,
}

/// Fragmentation of a whole cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClusterFragments {
    /// Idle GPU.
    pub idle_milli: u64,
    /// Idle GPU that the typical pods see as fragments, rounded down.
    pub fragment_milli: u64,
}

impl ClusterFragments {
    /// Fragment amount / idle GPU in parts per million; 0 when nothing is idle.
    #[must_use]
    pub fn ratio_ppm(&self) -> u32 {
        let ppm = u128::from(self.fragment_milli) * 1_000_000;
        ppm.checked_div(u128::from(self.idle_milli)).unwrap_or(0) as u32
    }
}

impl TypicalPods {
    /// Kinds by falling count (ties: the larger kind first) until they cover 95 % of the counts.
    #[must_use]
    pub fn from_counts(counts: impl IntoIterator<Item = (Kind, u64)>) -> Self {
        let mix = Mix::commonest(counts, TYPICAL_COVERAGE_PERMILLE);
        let cpu_only = mix.kinds().iter().filter(|k| k.kind.gpu.is_none()).map(|k| k.weight).sum();
        Self { mix, cpu_only }
    }

    /// The typical pods of a mix, by its weights.
    #[must_use]
    pub fn from_mix(mix: &Mix) -> Self {
        Self::from_counts(mix.kinds().iter().map(|k| (k.kind, k.weight)))
    }

    /// The kinds and their weights.
    #[must_use]
    pub const fn mix(&self) -> &Mix {
        &self.mix
    }

    /// Sum of the weights: amounts are in units of 1 / total milli-GPU.
    #[must_use]
    pub const fn total_weight(&self) -> u64 {
        self.mix.total()
    }

    /// F of a node times [`total_weight`](Self::total_weight).
    #[must_use]
    pub fn amount(&self, free: &FreeShape) -> u64 {
        let shape = Shape::new(free, 0);
        let idle = u64::from(shape.idle());
        if idle == 0 {
            return 0;
        }
        let mut amount = self.cpu_only * idle;
        for known in self.mix.kinds() {
            let kind = &known.kind;
            let milli = kind.gpu.milli().get();
            let count = usize::from(kind.gpu.count());
            if count == 0 {
                continue;
            }
            let fits = shape.levels[count - 1] >= milli
                && clamp_cpu(kind.cpu.0) <= shape.cpu
                && kind.models.contains(free.model);
            let fragment = if fits {
                let small = shape.levels.iter().filter(|&&level| level < milli);
                small.map(|&level| u64::from(level)).sum()
            } else {
                idle
            };
            amount += known.weight * fragment;
        }
        amount
    }

    /// F before minus F after placing `kind` on `devices`, times the total weight: positive if fragments fall. The
    /// devices must have room.
    #[must_use]
    pub fn fall(&self, free: &FreeShape, kind: &Kind, devices: DeviceMask) -> i64 {
        let after = free.after(kind.cpu, kind.gpu.milli(), devices);
        self.amount(free).cast_signed() - self.amount(&after).cast_signed()
    }

    /// The published choice of devices: a share goes to the device whose fall scores best, the first index on ties;
    /// whole cards take the first fully free devices; CPU-only kinds take none. `None` if the kind does not fit.
    /// `score` maps a fall to the score that is compared (higher is better).
    pub fn place(
        &self,
        free: &FreeShape,
        kind: &Kind,
        score: impl Fn(i64) -> i64,
    ) -> Option<(i64, DeviceMask)> {
        if !choice::fits(free, kind) {
            return None;
        }
        let devices = match kind.gpu {
            GpuRequest::None => DeviceMask::EMPTY,
            GpuRequest::Whole { count } => first_whole(free, count)?,
            GpuRequest::Share { milli } => return self.place_share(free, kind, milli, score),
        };
        Some((score(self.fall(free, kind, devices)), devices))
    }

    fn place_share(
        &self,
        free: &FreeShape,
        kind: &Kind,
        milli: MilliGpu,
        score: impl Fn(i64) -> i64,
    ) -> Option<(i64, DeviceMask)> {
        let mut seen = [0u16; MAX_GPUS_PER_NODE];
        let mut best: Option<(i64, DeviceMask)> = None;
        for (index, level) in choice::levels(free) {
            // Devices with the same amount free score the same; the first of them stands for all.
            if level < milli.get() || seen[..index].contains(&level) {
                continue;
            }
            seen[index] = level;
            let device = DeviceMask::only(index);
            let score = score(self.fall(free, kind, device));
            if best.is_none_or(|(most, _)| score > most) {
                best = Some((score, device));
            }
        }
        best
    }

    /// Sum over nodes.
    #[must_use]
    pub fn cluster<'a>(&self, nodes: impl IntoIterator<Item = &'a FreeShape>) -> ClusterFragments {
        let (mut idle_milli, mut amount) = (0u64, 0u128);
        for free in nodes {
            idle_milli += u64::from(free.idle_milli());
            amount += u128::from(self.amount(free));
        }
        let fragment = amount.checked_div(u128::from(self.total_weight())).unwrap_or(0);
        ClusterFragments { idle_milli, fragment_milli: fragment as u64 }
    }
}
