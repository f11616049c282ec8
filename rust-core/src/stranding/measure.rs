//! The measure itself: what a shape is worth under one mix and its prices. Read-only during a decision.

use super::fill::Fills;
use super::mix::Mix;
use super::models::ModelClasses;
use super::params::{PRICE_WEIGHT, WASTE_WEIGHT};
use super::scarcity::{Places, Prices};
use super::shape::Shape;
use super::slack;
use super::streams::Tickets;
use crate::cluster::FreeShape;

/// One mix, its streams and its prices.
#[derive(Debug)]
pub(super) struct Measure {
    pub(super) mix: Mix,
    pub(super) models: ModelClasses,
    /// Probability that a CPU-only pod takes its CPU in a fill.
    pub(super) take_permille: u64,
    pub(super) fills: Fills,
    pub(super) places: Places,
    pub(super) prices: Prices,
    /// Changes with the fills, and so with the mix.
    pub(super) mix_stamp: u32,
    /// Changes with the prices, and so with the mix.
    pub(super) price_stamp: u32,
}

impl Measure {
    /// Of an empty mix.
    pub(super) fn new() -> Self {
        let mix = Mix::default();
        Self {
            models: ModelClasses::new(&mix),
            take_permille: slack::take_permille(&mix, 0, 0),
            mix,
            fills: Fills::default(),
            places: Places::default(),
            prices: Prices::default(),
            mix_stamp: 0,
            price_stamp: 0,
        }
    }

    /// Goes over to another mix, without prices yet.
    pub(super) fn adopt(&mut self, mix: Mix, tickets: &Tickets) {
        self.models = ModelClasses::new(&mix);
        self.places = Places::new(&mix);
        self.mix = mix;
        self.draw_streams(tickets);
        self.set_prices(Prices::known(vec![0; self.mix.kinds().len()]));
    }

    pub(super) fn draw_streams(&mut self, tickets: &Tickets) {
        self.fills = Fills::new(&self.mix, &self.models, tickets, self.take_permille);
        self.mix_stamp += 1;
    }

    pub(super) fn set_prices(&mut self, mut prices: Prices) {
        prices.tabulate(&self.mix, &self.models, &self.places);
        self.prices = prices;
        self.price_stamp += 1;
    }

    pub(super) fn shape_of(&self, free: &FreeShape) -> Shape {
        Shape::new(free, self.models.of(free.model))
    }
}

/// Cost of a rise of W' and the price of the places lost; within `i64` by the bounds of [`Prices`].
#[inline]
pub(super) fn cost(waste_rise: i64, places_lost: u64) -> i64 {
    WASTE_WEIGHT * waste_rise + PRICE_WEIGHT * places_lost.cast_signed()
}
