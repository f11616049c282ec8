//! The packing experiment: pods arrive one at a time, each is placed or rejected for good, none leaves.

mod cluster;
mod policy;
mod requests;
mod run;
mod summary;
mod sweep;

pub use policy::{Policy, PolicyError};
pub use run::{Accepted, Run, RunError, run};
pub use summary::{Mean, MeanSd, means};
pub(crate) use sweep::steal_all;
pub use sweep::{Plan, RunSpec, sweep};

use crate::sequence::Arrivals;
use crate::trace::NodeSpec;

/// Rule among equally good nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ties {
    /// A new random order for every decision: nothing depends on the names or order of nodes.
    Random,
    /// One random order of the nodes per seed, as in the published runs.
    Rank,
}

/// What a policy knows of the workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mix {
    /// Nothing in advance: learned from the arrivals.
    Learned,
    /// The kinds and counts of the whole trace, as in the published runs.
    Trace,
}

/// What all runs of an experiment share.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The empty cluster.
    pub nodes: Vec<NodeSpec>,
    /// Which pods arrive, in which order.
    pub arrivals: Arrivals,
    /// Rule among equals.
    pub ties: Ties,
    /// What is known of the workload.
    pub mix: Mix,
}

impl Setup {
    /// Thousandths of a GPU of the whole cluster.
    pub fn capacity_milli(&self) -> u64 {
        self.nodes.iter().map(|node| 1000 * u64::from(node.gpus)).sum()
    }
}
