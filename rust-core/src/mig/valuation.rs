//! What a step from one layout to another costs, by strategy.

use super::geometry::{Geometry, LayoutId};
use super::strategy::{MigStrategy, fragmentation};
use super::value::Values;

/// The tables of one model. Its mix and the places that the cards have are the owner's.
#[derive(Clone, Debug)]
pub(crate) struct Valuation {
    strategy: MigStrategy,
    values: Values,
    fragmentation: Vec<i64>,
}

impl Valuation {
    pub(crate) fn new(geometry: &Geometry, strategy: MigStrategy) -> Valuation {
        let layouts = geometry.layouts();
        Valuation {
            strategy,
            values: Values::new(geometry),
            fragmentation: layouts.map(|layout| fragmentation(geometry, layout)).collect(),
        }
    }

    pub(crate) const fn strategy(&self) -> MigStrategy {
        self.strategy
    }

    /// Takes over a new mix, weights by profile.
    pub(crate) fn relearn(&mut self, geometry: &Geometry, weights: &[u64]) {
        if self.strategy == MigStrategy::ExpectedStranding {
            self.values.relearn(geometry, weights);
        }
    }

    /// Computes prices from the places that `cards` cards have for each profile.
    pub(crate) fn reprice(&mut self, weights: &[u64], places: &[u64], cards: usize) {
        if self.strategy == MigStrategy::ExpectedStranding {
            self.values.reprice(weights, places, cards);
        }
    }

    /// Instances of each profile that a card could still hold, alone.
    pub(crate) fn rooms(&self, layout: LayoutId) -> &[u8] {
        self.values.rooms(layout)
    }

    /// W in 2^-16 slices.
    pub(crate) fn stranded(&self, layout: LayoutId) -> i64 {
        self.values.stranded(layout)
    }

    /// Lower is better; for expected stranding in 2^-32 slices.
    pub(crate) fn cost(&self, geometry: &Geometry, before: LayoutId, after: LayoutId) -> i64 {
        match self.strategy {
            MigStrategy::ExpectedStranding => self.values.worth(before) - self.values.worth(after),
            MigStrategy::Mfi => {
                self.fragmentation[after.index()] - self.fragmentation[before.index()]
            }
            MigStrategy::BestFit => i64::from(geometry.free_slices(after)),
            MigStrategy::FirstFit => 0,
        }
    }
}
