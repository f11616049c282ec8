//! The value of a free shape: expected stranded GPU, the learned workload mix and its prices, fragment amounts.
//!
//! cost of a placement = 2^16 * [W'(after) - W'(before)] + 32 * sum_m P_m * [U_m(before) - U_m(after)]: what will be
//! stranded more, and what scarce places are lost (scheduling-quality notes, B.3 to B.5, with a refined price).
//!
//! [`mix`] learns what arrives and [`learned`] carries that over a restart; [`fill`] computes W', [`scarcity`] U and P; [`memo`] remembers both by shape;
//! [`totals`] sums U over the cluster; [`fgd`] is the published measure for comparison and reports; [`twin`] computes
//! everything again from the formulas as an oracle. All numbers are in [`params`].

mod choice;
pub mod fgd;
mod fill;
mod learned;
mod loss;
mod memo;
mod mix;
mod models;
pub mod params;
mod quote;
mod scarcity;
mod shape;
mod slack;
mod streams;
#[cfg(test)]
mod tests;
mod totals;
pub mod twin;

pub use mix::{Mix, MixMode, WeightedKind};
pub use quote::Quotes;
pub use totals::NodeShapes;

use crate::cluster::FreeShape;
use crate::limits::MAX_MIX_KINDS;
use crate::request::{GpuRequest, Kind, PodRequest};
use crate::score::{Placed, first_whole};
use crate::units::DeviceMask;
use fill::Fills;
use loss::Losses;
use memo::Memo;
use mix::{Arrivals, Observed};
use models::ModelClasses;
use params::{
    FILL_STREAMS, LARGE_KIND_DEVICES, MIX_COVERAGE_PERMILLE, PRICE_REFRESH_ARRIVALS, PRICE_WEIGHT,
    WASTE_WEIGHT,
};
use scarcity::{Market, Places, Prices};
use shape::Shape;
use streams::Tickets;
use totals::Totals;

/// Counters for metrics.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StrandingStats {
    /// Look-ups answered by the memo table.
    pub memo_hits: u64,
    /// Look-ups that had to be computed.
    pub memo_misses: u64,
    /// Bytes held by the memo tables.
    pub memo_bytes: usize,
    /// Times the mix was learned (or given).
    pub relearns: u64,
    /// Times prices were computed.
    pub price_refreshes: u64,
    /// Kinds in the mix.
    pub mix_kinds: usize,
    /// Pods counted.
    pub arrivals: u64,
}

/// Expected-stranding scores over one mix.
#[derive(Debug)]
pub struct Stranding {
    fixed: bool,
    arrivals: Arrivals,
    mix: Mix,
    models: ModelClasses,
    tickets: Tickets,
    /// Probability that a CPU-only pod takes its CPU in a fill.
    take_permille: u64,
    fills: Fills,
    places: Places,
    prices: Prices,
    totals: Totals,
    losses: Losses,
    memo: Memo,
    row: Vec<u16>,
    row_after: Vec<u16>,
    mix_stamp: u32,
    price_stamp: u32,
    /// Arrivals counted when the prices were computed; `None` before that for the present mix.
    priced_at: Option<u64>,
    relearns: u64,
    price_refreshes: u64,
}

impl Stranding {
    /// Nothing learned yet; memo tables take at most about `memo_bytes`.
    #[must_use]
    pub fn new(mode: MixMode, memo_bytes: usize) -> Self {
        let (fixed, mix) = match mode {
            MixMode::Learned => (false, Mix::default()),
            MixMode::Fixed(counts) => (true, Mix::commonest(counts, MIX_COVERAGE_PERMILLE)),
        };
        let mut stranding = Self {
            fixed,
            arrivals: Arrivals::default(),
            models: ModelClasses::new(&mix),
            mix: Mix::default(),
            tickets: Tickets::new(),
            take_permille: slack::take_permille(&mix, 0, 0),
            fills: Fills::default(),
            places: Places::default(),
            prices: Prices::default(),
            totals: Totals::default(),
            losses: Losses::new(memo_bytes / 4),
            memo: Memo::new(memo_bytes / 4 * 3),
            row: Vec::new(),
            row_after: Vec::new(),
            mix_stamp: 0,
            price_stamp: 0,
            priced_at: None,
            relearns: 0,
            price_refreshes: 0,
        };
        stranding.adopt(mix);
        stranding
    }

    /// Counts a pod that arrived, once per UID. Leave out pods that must not be learned (DaemonSets, placeholders).
    pub fn observe(&mut self, pod: &PodRequest) {
        if self.arrivals.observe(pod.uid, pod.kind()) == Observed::RelearnDue && !self.fixed {
            self.adopt(self.arrivals.learn(MIX_COVERAGE_PERMILLE));
        }
    }

    fn adopt(&mut self, mix: Mix) {
        self.mix = mix;
        self.models = ModelClasses::new(&self.mix);
        self.draw_streams();
        self.places = Places::new(&self.mix);
        self.totals.reset(&self.models, &self.places);
        self.losses.reset(&self.places);
        self.row = vec![0; self.places.width()];
        self.row_after = self.row.clone();
        self.relearns += u64::from(!self.mix.is_empty());
        self.priced_at = None;
        self.set_prices(Prices::known(vec![0; self.mix.kinds().len()]));
    }

    fn draw_streams(&mut self) {
        self.fills = Fills::new(&self.mix, &self.models, &self.tickets, self.take_permille);
        self.mix_stamp += 1;
    }

    fn set_prices(&mut self, mut prices: Prices) {
        prices.tabulate(&self.mix, &self.models, &self.places);
        self.prices = prices;
        self.price_stamp += 1;
    }

    /// Looks at the cluster if the mix is new or enough pods arrived since the last time: computes prices, and for a
    /// new mix how much CPU the CPU-only pods will take. A large kind that is new joins the mix then. Call before a decision, after the arrival was observed.
    pub fn refresh_if_due(&mut self, nodes: &dyn NodeShapes) {
        let counted = self.arrivals.counted();
        if self.mix.is_empty()
            || self.priced_at.is_some_and(|at| counted - at < PRICE_REFRESH_ARRIVALS)
        {
            return;
        }
        if self.large_kind_unknown() {
            self.adopt(self.arrivals.learn(MIX_COVERAGE_PERMILLE));
        }
        self.totals.update(nodes, &self.models, &self.places);
        let (idle, cpu) = (self.totals.idle_milli(), self.totals.cpu_milli());
        if self.priced_at.is_none() {
            let take_permille = slack::take_permille(&self.mix, idle, cpu);
            if take_permille != self.take_permille {
                self.take_permille = take_permille;
                self.draw_streams();
            }
        }
        let prices = Prices::new(
            &self.mix,
            &Market {
                weights: &self.weights(),
                capacity_milli: self.totals.capacity_milli(),
                idle_milli: idle,
                usable_milli: &self.totals.usable_milli(&self.mix, &self.models, &self.places),
            },
        );
        self.set_prices(prices);
        self.priced_at = Some(counted);
        self.price_refreshes += 1;
    }

    /// Whether a large kind was counted since the mix was learned. It must not wait for its price until the next
    /// relearn: what it needs is taken by then.
    fn large_kind_unknown(&self) -> bool {
        let mut large =
            self.arrivals.weights.keys().filter(|kind| kind.gpu.count() >= LARGE_KIND_DEVICES);
        !self.fixed
            && self.mix.kinds().len() < MAX_MIX_KINDS
            && large.any(|kind| self.mix.kinds().iter().all(|known| known.kind != *kind))
    }

    /// Weight of each kind of the mix as counted now: prices follow the load more closely than fills.
    fn weights(&self) -> Vec<u64> {
        let kinds = self.mix.kinds().iter();
        if self.fixed {
            return kinds.map(|known| known.weight).collect();
        }
        kinds.map(|known| self.arrivals.weights.get(&known.kind).copied().unwrap_or(0)).collect()
    }

    /// Changes when the mix changes: quotes and costs from before are void. Starts at 1.
    #[must_use]
    pub const fn mix_epoch(&self) -> u32 {
        self.mix_stamp
    }

    /// Changes when prices change, also with the mix: costs from before are void. Starts at 1.
    #[must_use]
    pub const fn price_epoch(&self) -> u32 {
        self.price_stamp
    }

    /// The mix that scores now.
    #[must_use]
    pub const fn mix(&self) -> &Mix {
        &self.mix
    }

    /// Price of one place of every kind of the mix, in its order, in 2^-16 milli-GPU.
    #[must_use]
    pub fn prices(&self) -> &[u64] {
        &self.prices.of_kind
    }

    /// The cheapest placement of `kind` on a node, or `None` if model, CPU or devices do not allow one (memory is the
    /// caller's). A share may take the first device of each distinct free amount that fits, at equal cost the tighter;
    /// whole cards take the first devices that are fully free.
    pub fn place(&mut self, free: &FreeShape, kind: &Kind) -> Option<Placed> {
        if !choice::fits(free, kind) {
            return None;
        }
        if self.mix.is_empty() {
            return choice::without_mix(free, kind);
        }
        let shape = self.shape_of(free);
        let (waste, worth) = (self.waste(&shape), self.worth(&shape));
        let mut best: Option<(i64, u16)> = None;
        let mut level = 0;
        while let Some(next) = shape.next_level(kind, level) {
            level = next;
            let after = shape.after(kind, level);
            let rise = i64::from(self.waste(&after)) - i64::from(waste);
            let cost = cost(rise, worth - self.worth(&after));
            if best.is_none_or(|(least, _)| cost < least) {
                best = Some((cost, level));
            }
        }
        let (cost, level) = best?;
        let devices = match kind.gpu {
            GpuRequest::None => DeviceMask::EMPTY,
            GpuRequest::Whole { count } => first_whole(free, count)?,
            GpuRequest::Share { .. } => choice::first_at(free, level),
        };
        Some(Placed { cost, devices })
    }

    fn shape_of(&self, free: &FreeShape) -> Shape {
        Shape::new(free, self.models.of(free.model))
    }

    /// W' of a shape, from the memo table if it is there.
    fn waste(&mut self, shape: &Shape) -> u32 {
        if let Some(waste) = self.memo.get(shape, self.mix_stamp) {
            return waste;
        }
        let waste = self.fills.waste(shape);
        self.memo.insert(shape, self.mix_stamp, &waste);
        waste.milli
    }

    /// sum P_m U_m of a shape.
    fn worth(&mut self, shape: &Shape) -> u64 {
        self.places.count(shape, &mut self.row);
        self.prices.worth(shape.class, &self.row)
    }

    /// W: milli-GPU of a node that the mix is expected to strand, rounded down. All idle GPU while nothing is known.
    #[must_use]
    pub fn expected_stranded_milli(&self, free: &FreeShape) -> u32 {
        self.fills.waste(&self.shape_of(free)).milli / FILL_STREAMS as u32
    }

    /// Counters.
    #[must_use]
    pub fn stats(&self) -> StrandingStats {
        StrandingStats {
            memo_hits: self.memo.hits,
            memo_misses: self.memo.misses,
            memo_bytes: self.memo.bytes() + self.losses.bytes(),
            relearns: self.relearns,
            price_refreshes: self.price_refreshes,
            mix_kinds: self.mix.kinds().len(),
            arrivals: self.arrivals.counted(),
        }
    }
}

/// Cost of a rise of W' and the price of the places lost; within `i64` by the bounds of [`Prices`].
#[inline]
fn cost(waste_rise: i64, places_lost: u64) -> i64 {
    WASTE_WEIGHT * waste_rise + PRICE_WEIGHT * places_lost.cast_signed()
}
