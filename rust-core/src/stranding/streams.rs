//! The random streams of the fills: what arrives at each step. A draw is a pure function of (stream, step) and the
//! mix, the same for every shape, so that differences between shapes are not noise (common random numbers). At each
//! step the streams draw from different strata of the mix, so that together they follow it closely.

use super::mix::Mix;
use super::params::{FILL_STREAMS, STREAM_SEED, STREAM_STEPS};
use crate::hash::mix64;

/// Random numbers of all streams: fractions of 2^64.
#[derive(Clone, Debug)]
pub(super) struct Tickets {
    /// Per stream and step: what picks the kind, and the coin.
    tickets: Vec<[(u64, u64); STREAM_STEPS]>,
}

impl Tickets {
    pub(super) fn new() -> Self {
        let mut tickets = vec![[(0, 0); STREAM_STEPS]; FILL_STREAMS];
        for step in 0..STREAM_STEPS {
            let (kinds, coins) = (stratified(2 * step), stratified(2 * step + 1));
            for (stream, tickets) in tickets.iter_mut().enumerate() {
                tickets[step] = (kinds[stream], coins[stream]);
            }
        }
        Self { tickets }
    }

    /// The numbers of `step`; streams repeat after [`STREAM_STEPS`].
    pub(super) fn at(&self, stream: usize, step: usize) -> (u64, u64) {
        self.tickets[stream][step % STREAM_STEPS]
    }
}

/// One number per stream, each in a stratum of its own.
fn stratified(series: usize) -> [u64; FILL_STREAMS] {
    const DIGITS: u32 = FILL_STREAMS.ilog2();
    let hash = |stream: usize| mix64(mix64(STREAM_SEED) ^ ((series as u64) << 32 | stream as u64));
    let mut order: [usize; FILL_STREAMS] = std::array::from_fn(|stream| stream);
    order.sort_unstable_by_key(|&stream| (hash(stream), stream));
    let mut numbers = [0; FILL_STREAMS];
    for (stratum, &stream) in order.iter().enumerate() {
        numbers[stream] = (stratum as u64) << (u64::BITS - DIGITS) | mix64(hash(stream)) >> DIGITS;
    }
    numbers
}

/// One draw: an index into the mix and whether a CPU-only pod takes its CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Draw {
    pub(super) kind: usize,
    pub(super) takes_cpu: bool,
}

/// Draws kinds by weight. Similar kinds are neighbours, so that strata mean something.
#[derive(Debug)]
pub(super) struct Drawer<'a> {
    tickets: &'a Tickets,
    take_permille: u64,
    order: Vec<usize>,
    cumulative: Vec<u64>,
}

impl<'a> Drawer<'a> {
    pub(super) fn new(mix: &Mix, tickets: &'a Tickets, take_permille: u64) -> Self {
        let order = draw_order(mix);
        let mut sum = 0;
        let add = |&kind: &usize| {
            sum += mix.kinds()[kind].weight;
            sum
        };
        let cumulative = order.iter().map(add).collect();
        Self { tickets, take_permille, order, cumulative }
    }

    /// The draw of `step`. The mix must not be empty.
    pub(super) fn draw(&self, stream: usize, step: usize) -> Draw {
        let (ticket, coin) = self.tickets.at(stream, step);
        let point = scale(ticket, self.cumulative.last().copied().unwrap_or(0));
        let position = self.cumulative.partition_point(|&sum| sum <= point);
        Draw { kind: self.order[position], takes_cpu: scale(coin, 1000) < self.take_permille }
    }
}

/// Kinds of the mix by devices, milli per device, CPU and models.
pub(super) fn draw_order(mix: &Mix) -> Vec<usize> {
    let mut order: Vec<usize> = (0..mix.kinds().len()).collect();
    order.sort_unstable_by_key(|&index| {
        let kind = &mix.kinds()[index].kind;
        (kind.gpu.count(), kind.gpu.milli(), kind.cpu, kind.models, index)
    });
    order
}

/// floor(fraction * range), the fraction in 2^-64.
pub(super) fn scale(fraction: u64, range: u64) -> u64 {
    ((u128::from(fraction) * u128::from(range)) >> 64) as u64
}
