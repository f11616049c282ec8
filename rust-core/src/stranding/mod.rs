//! The value of a free shape: expected stranded GPU, the learned workload mix and its prices, fragment amounts.

use crate::request::Kind;

/// Where the workload mix comes from.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum MixMode {
    /// Learned from the arrivals.
    #[default]
    Learned,
    /// Known in advance: kinds with their counts.
    Fixed(Vec<(Kind, u64)>),
}
