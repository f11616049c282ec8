//! The random streams of the fills: what arrives at each step. A draw is a pure function of (stream, step) and the
//! mix, the same for every shape, so that differences between shapes are not noise (common random numbers).

use super::mix::Mix;
use super::params::{CPU_ONLY_TAKE, STREAM_SEED, STREAM_STEPS};
use crate::hash::mix64;

/// One draw: an index into the mix and the coin that decides whether a CPU-only pod takes its CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Draw {
    pub(super) kind: usize,
    pub(super) takes_cpu: bool,
}

/// Draws kinds by weight.
#[derive(Debug)]
pub(super) struct Drawer {
    cumulative: Vec<u64>,
}

impl Drawer {
    pub(super) fn new(mix: &Mix) -> Self {
        let mut sum = 0;
        let cumulative = mix
            .kinds()
            .iter()
            .map(|kind| {
                sum += kind.weight;
                sum
            })
            .collect();
        Self { cumulative }
    }

    /// The draw of `step`; streams repeat after [`STREAM_STEPS`]. The mix must not be empty.
    pub(super) fn draw(&self, stream: usize, step: usize) -> Draw {
        let (ticket, coin) = randomness(stream, step);
        let total = self.cumulative.last().copied().unwrap_or(0);
        let point = ((u128::from(ticket) * u128::from(total)) >> 64) as u64;
        let kind = self.cumulative.partition_point(|&sum| sum <= point);
        Draw { kind, takes_cpu: (coin >> 32) * CPU_ONLY_TAKE.1 < CPU_ONLY_TAKE.0 << 32 }
    }
}

/// Counter-based random numbers of one step: the ticket that picks the kind and the coin.
pub(super) fn randomness(stream: usize, step: usize) -> (u64, u64) {
    let counter = (stream as u64) << 32 | (step % STREAM_STEPS) as u64;
    let ticket = mix64(mix64(STREAM_SEED) ^ counter);
    (ticket, mix64(ticket))
}
