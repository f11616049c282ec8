//! The value of a free shape: expected stranded GPU, the learned workload mix and its prices, fragment amounts.
//!
//! cost of a placement = 2^16 * [W'(after) - W'(before)] + 32 * sum_m P_m * [U_m(before) - U_m(after)]: what will be
//! stranded more, and what scarce places are lost (scheduling-quality notes, B.3 to B.5, with a refined price).
//!
//! [`mix`] learns what arrives and [`learned`] carries that over a restart; [`measure`] is the value of a shape under one mix: [`fill`] computes W',
//! [`scarcity`] U and P. [`tables`] remembers values, [`memo`] W' by shape and [`loss`] places lost; [`quote`] and [`shards`] apply them to all nodes.
//! [`totals`] sums U over the cluster; [`fgd`] is the published measure for comparison and reports; [`twin`] computes
//! everything again from the formulas as an oracle. All numbers are in [`params`].

mod choice;
pub mod fgd;
mod fill;
mod learned;
mod loss;
mod measure;
mod memo;
mod mix;
mod models;
pub mod params;
mod quote;
mod scarcity;
mod shape;
mod shards;
mod slack;
mod streams;
mod tables;
#[cfg(test)]
mod tests;
mod totals;
pub mod twin;

pub use mix::{Mix, MixMode, WeightedKind};
pub use quote::Quotes;
pub use totals::NodeShapes;

pub(crate) use quote::Look;

use crate::cluster::FreeShape;
use crate::limits::MAX_MIX_KINDS;
use crate::request::{Kind, PodRequest};
use crate::score::Placed;
use measure::Measure;
use mix::{Arrivals, Observed};
use params::{FILL_STREAMS, LARGE_KIND_DEVICES, MIX_COVERAGE_PERMILLE, PRICE_REFRESH_ARRIVALS};
use scarcity::{Market, Prices};
use streams::Tickets;
use tables::{Lookup, Tables};
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

/// A cost of [`Stranding::place`], which is in milli-GPU summed over the fills and weighted, in 2^-35 cards.
#[must_use]
pub(crate) fn cost_in_cards(cost: i64) -> i64 {
    let per_card = i128::from(crate::limits::CARD_MILLI)
        * FILL_STREAMS as i128
        * i128::from(params::WASTE_WEIGHT);
    ((i128::from(cost) << 35) / per_card) as i64
}

/// Expected-stranding scores over one mix.
#[derive(Debug)]
pub struct Stranding {
    fixed: bool,
    arrivals: Arrivals,
    tickets: Tickets,
    totals: Totals,
    measure: Measure,
    tables: Tables,
    /// Tables of parts of the nodes while they are looked at side by side; empty in between.
    shards: Vec<Tables>,
    memo_bytes: usize,
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
            tickets: Tickets::new(),
            totals: Totals::default(),
            measure: Measure::new(),
            tables: Tables::new(memo_bytes / 2, memo_bytes / 4),
            shards: Vec::new(),
            memo_bytes,
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
        self.measure.adopt(mix, &self.tickets);
        let places = &self.measure.places;
        self.totals.reset(&self.measure.models, places);
        self.tables.reset(places);
        self.shards.iter_mut().for_each(|shard| shard.reset(places));
        self.relearns += u64::from(!self.measure.mix.is_empty());
        self.priced_at = None;
    }

    /// Looks at the cluster if the mix is new or enough pods arrived since the last time: computes prices, and for a
    /// new mix how much CPU the CPU-only pods will take. A large kind that is new joins the mix then. Call before a decision, after the arrival was observed.
    pub fn refresh_if_due(&mut self, nodes: &dyn NodeShapes) {
        let counted = self.arrivals.counted();
        if self.measure.mix.is_empty()
            || self.priced_at.is_some_and(|at| counted - at < PRICE_REFRESH_ARRIVALS)
        {
            return;
        }
        if self.large_kind_unknown() {
            self.adopt(self.arrivals.learn(MIX_COVERAGE_PERMILLE));
        }
        self.totals.update(nodes, &self.measure.models, &self.measure.places);
        let (idle, cpu) = (self.totals.idle_milli(), self.totals.cpu_milli());
        if self.priced_at.is_none() {
            let take_permille = slack::take_permille(&self.measure.mix, idle, cpu);
            if take_permille != self.measure.take_permille {
                self.measure.take_permille = take_permille;
                self.measure.draw_streams(&self.tickets);
            }
        }
        let Measure { mix, models, places, .. } = &self.measure;
        let prices = Prices::new(
            mix,
            &Market {
                weights: &self.weights(),
                capacity_milli: self.totals.capacity_milli(),
                idle_milli: idle,
                usable_milli: &self.totals.usable_milli(mix, models, places),
            },
        );
        self.measure.set_prices(prices);
        self.priced_at = Some(counted);
        self.price_refreshes += 1;
    }

    /// Whether a large kind was counted since the mix was learned. It must not wait for its price until the next
    /// relearn: what it needs is taken by then.
    fn large_kind_unknown(&self) -> bool {
        let mut large =
            self.arrivals.weights.keys().filter(|kind| kind.gpu.count() >= LARGE_KIND_DEVICES);
        !self.fixed
            && self.measure.mix.kinds().len() < MAX_MIX_KINDS
            && large.any(|kind| self.measure.mix.kinds().iter().all(|known| known.kind != *kind))
    }

    /// Weight of each kind of the mix as counted now: prices follow the load more closely than fills.
    fn weights(&self) -> Vec<u64> {
        let kinds = self.measure.mix.kinds().iter();
        if self.fixed {
            return kinds.map(|known| known.weight).collect();
        }
        kinds.map(|known| self.arrivals.weights.get(&known.kind).copied().unwrap_or(0)).collect()
    }

    /// Changes when the mix changes: quotes and costs from before are void. Starts at 1.
    #[must_use]
    pub const fn mix_epoch(&self) -> u32 {
        self.measure.mix_stamp
    }

    /// Changes when prices change, also with the mix: costs from before are void. Starts at 1.
    #[must_use]
    pub const fn price_epoch(&self) -> u32 {
        self.measure.price_stamp
    }

    /// The mix that scores now.
    #[must_use]
    pub const fn mix(&self) -> &Mix {
        &self.measure.mix
    }

    /// Price of one place of every kind of the mix, in its order, in 2^-16 milli-GPU.
    #[must_use]
    pub fn prices(&self) -> &[u64] {
        &self.measure.prices.of_kind
    }

    /// The cheapest placement of `kind` on a node, or `None` if model, CPU or devices do not allow one (memory is the
    /// caller's). A share may take the first device of each distinct free amount that fits, at equal cost the tighter;
    /// whole cards take the first devices that are fully free.
    pub fn place(&mut self, free: &FreeShape, kind: &Kind) -> Option<Placed> {
        self.lookup().place(free, kind)
    }

    fn lookup(&mut self) -> Lookup<'_> {
        Lookup { measure: &self.measure, shared: None, own: &mut self.tables }
    }

    /// W: milli-GPU of a node that the mix is expected to strand, rounded down. All idle GPU while nothing is known.
    #[must_use]
    pub fn expected_stranded_milli(&self, free: &FreeShape) -> u32 {
        self.measure.fills.waste(&self.measure.shape_of(free)).milli / FILL_STREAMS as u32
    }

    /// Counters.
    #[must_use]
    pub fn stats(&self) -> StrandingStats {
        StrandingStats {
            memo_hits: self.tables.memo.hits,
            memo_misses: self.tables.memo.misses,
            memo_bytes: self.tables.bytes() + self.shards.iter().map(Tables::bytes).sum::<usize>(),
            relearns: self.relearns,
            price_refreshes: self.price_refreshes,
            mix_kinds: self.measure.mix.kinds().len(),
            arrivals: self.arrivals.counted(),
        }
    }
}
