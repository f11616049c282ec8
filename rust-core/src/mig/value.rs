//! What a layout is worth to the requests still to come: slices that will be stranded, and places that would be lost.
//!
//! `W` is the number of slices left idle when requests of the mix arrive, each takes its best start, and what fits
//! nowhere is skipped: exact, by dynamic programming over the layouts from full to empty. `U` of a profile is the
//! slices that instances of it alone could still use; it counts in part as it will be when some instances have left.

use super::geometry::{Geometry, LayoutId};
use super::params::{
    FRACTION_BITS, HORIZON_RATE, LATER_SHARE, PRICE_SCALE_FLOOR, PRICE_SCALE_PER_CARD, PRICE_WEIGHT,
};
use super::profiles::ProfileId;

const ONE: i64 = 1 << FRACTION_BITS;
/// Binary digits of the scale of a price.
const SCALE_BITS: u32 = 8;

/// Tables over the layouts of a geometry.
#[derive(Clone, Debug)]
pub(super) struct Values {
    profiles: usize,
    /// Instances of a profile that fit, [layout * profiles + profile].
    rooms: Vec<u8>,
    /// U, partly after the horizon, in 2^-16 slices, laid out likewise.
    places: Vec<i64>,
    /// W in 2^-16 slices.
    stranded: Vec<i64>,
    /// What a layout is worth; the cost of a step is the fall.
    worth: Vec<i64>,
}

impl Values {
    pub(super) fn new(geometry: &Geometry) -> Values {
        let profiles = geometry.model().profiles.len();
        let mut rooms = Vec::with_capacity(geometry.layout_count() * profiles);
        for layout in geometry.layouts() {
            rooms.extend((0..profiles).map(|p| geometry.room(layout, ProfileId(p as u8))));
        }
        let places = places(geometry, profiles, &rooms);
        let empty = vec![0; geometry.layout_count()];
        Values { profiles, rooms, places, stranded: empty.clone(), worth: empty }
    }

    /// Instances of each profile that a card could still hold, alone.
    pub(super) fn rooms(&self, layout: LayoutId) -> &[u8] {
        &self.rooms[layout.index() * self.profiles..][..self.profiles]
    }

    pub(super) fn worth(&self, layout: LayoutId) -> i64 {
        self.worth[layout.index()]
    }

    /// W in 2^-16 slices.
    pub(super) fn stranded(&self, layout: LayoutId) -> i64 {
        self.stranded[layout.index()]
    }

    /// Learns W for a new mix.
    pub(super) fn relearn(&mut self, geometry: &Geometry, weights: &[u64]) {
        for layout in geometry.layouts().rev() {
            let mut weighted = 0i128;
            let mut total = 0i128;
            for (index, &weight) in weights.iter().enumerate() {
                let fits = geometry.fitting(layout, ProfileId(index as u8));
                if let Some(best) = fits.map(|(_, after)| self.stranded[after.index()]).min() {
                    weighted += i128::from(weight) * i128::from(best);
                    total += i128::from(weight);
                }
            }
            self.stranded[layout.index()] = if total > 0 {
                (weighted / total) as i64
            } else {
                i64::from(geometry.free_slices(layout)) * ONE
            };
        }
    }

    /// Prices the places of each profile by how few the cluster has, `places[profile]`.
    pub(super) fn reprice(&mut self, weights: &[u64], places: &[u64], cards: usize) {
        let total: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
        let price = |(&weight, &places): (&u64, &u64)| {
            let share = (u128::from(weight) << FRACTION_BITS) / total.max(1);
            price(share as i64, places, cards)
        };
        let prices: Vec<i64> = weights.iter().zip(places).map(price).collect();
        let rows = self.places.chunks_exact(self.profiles);
        for ((worth, row), stranded) in self.worth.iter_mut().zip(rows).zip(&self.stranded) {
            let kept: i64 = row.iter().zip(&prices).map(|(places, price)| places * price).sum();
            *worth = PRICE_WEIGHT * kept - stranded * ONE;
        }
    }
}

/// share * (s / (s + places))^3, all but `places` in 2^-16.
fn price(share: i64, places: u64, cards: usize) -> i64 {
    let (numerator, denominator) = PRICE_SCALE_PER_CARD;
    let grown = ((cards as u64 * numerator) << (2 * SCALE_BITS)) / denominator;
    let squared = (PRICE_SCALE_FLOOR << (2 * SCALE_BITS)) + grown;
    let scale = squared.isqrt();
    let ratio = ((scale << FRACTION_BITS) / (scale + (places << SCALE_BITS))) as i64;
    (0..3).fold(share, |price, _| (price * ratio) >> FRACTION_BITS)
}

/// U now and after the horizon: each instance leaves with rate 1, the horizon ends with [`HORIZON_RATE`], nothing arrives.
fn places(geometry: &Geometry, profiles: usize, rooms: &[u8]) -> Vec<i64> {
    let sizes: Vec<i64> =
        geometry.model().profiles.iter().map(|p| i64::from(p.memory_slices)).collect();
    let now = |at: usize| i64::from(rooms[at]) * sizes[at % profiles] * ONE;
    let (rate, unit) = HORIZON_RATE;
    let mut later = vec![0i64; rooms.len()];
    for layout in geometry.layouts() {
        for profile in 0..profiles {
            let at = layout.index() * profiles + profile;
            let mut sum = rate * now(at);
            let mut weight = rate;
            for instance in geometry.instances(layout) {
                let Some(after) = geometry.remove(layout, instance) else { continue };
                sum += unit * later[after.index() * profiles + profile];
                weight += unit;
            }
            later[at] = sum / weight;
        }
    }
    let (share, whole) = LATER_SHARE;
    (0..rooms.len()).map(|at| ((whole - share) * now(at) + share * later[at]) / whole).collect()
}
