//! Scoring strategies: what a placement costs and on which devices it goes.

mod baselines;
mod column;
mod columns;
mod devices;
mod fragments;
mod scorer;
mod select;

use std::fmt;
use std::str::FromStr;

pub use devices::{first_whole, tightest_share};

use crate::error::Error;
use crate::units::DeviceMask;

pub(crate) use column::UNFIT;
pub(crate) use columns::{Columns, MemoryFloor};
pub(crate) use devices::any_devices;
pub(crate) use scorer::Scorer;
pub(crate) use select::Selection;

/// Where a pod would go on a node, and what that costs; lower is better. Costs of different requests or strategies do
/// not compare.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Placed {
    /// Lower is better.
    pub cost: i64,
    /// Devices to use; empty without GPUs.
    pub devices: DeviceMask,
}

/// A scoring rule.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Strategy {
    /// Least increase of expected stranded GPU plus the scarcity price of the places taken.
    #[default]
    ExpectedStranding,
    /// Fragmentation Gradient Descent as published (ATC 2023), scores truncated to 0..100.
    Fgd,
    /// Least left of CPU and GPU, as in the published comparison.
    BestFit,
    /// Least dot product of free and requested, as in the published comparison.
    DotProduct,
    /// Used cards first, then free cards of used nodes, as in the published comparison.
    GpuPacking,
    /// Nodes that already run the pod's class of GPU pods, as in the published comparison.
    GpuClustering,
    /// Nodes whose free GPUs are a multiple of the request, then those with the fewest GPUs left.
    WholeCardFirst,
    /// Most CPU and memory left, as kube-scheduler's NodeResourcesFit has it by default.
    LeastAllocated,
    /// Any feasible node and any device that fits.
    Random,
}

impl Strategy {
    /// All strategies.
    pub const ALL: [Self; 9] = [
        Self::ExpectedStranding,
        Self::Fgd,
        Self::BestFit,
        Self::DotProduct,
        Self::GpuPacking,
        Self::GpuClustering,
        Self::WholeCardFirst,
        Self::LeastAllocated,
        Self::Random,
    ];

    /// The name users write.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ExpectedStranding => "expected-stranding",
            Self::Fgd => "fgd",
            Self::BestFit => "best-fit",
            Self::DotProduct => "dot-product",
            Self::GpuPacking => "gpu-packing",
            Self::GpuClustering => "gpu-clustering",
            Self::WholeCardFirst => "whole-card-first",
            Self::LeastAllocated => "least-allocated",
            Self::Random => "random",
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Strategy {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|strategy| strategy.name() == name).ok_or_else(|| {
            let known: Vec<&str> = Self::ALL.iter().map(|strategy| strategy.name()).collect();
            Error::invalid(
                "strategy",
                format!("{name:?}"),
                format!("choose one of {}", known.join(", ")),
            )
        })
    }
}
