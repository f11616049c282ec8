//! Every tunable number of MIG placement, with the reason for its value.

/// Binary digits of fractions of a slice and of prices.
pub(super) const FRACTION_BITS: u32 = 16;

/// Weight of places lost against slices stranded: the cost is dW + 15 * sum of price * dU. Between 7 and 20 the
/// rejected slices change by less than the noise of ten seeds.
pub(super) const PRICE_WEIGHT: i64 = 15;

/// Share of a place that counts as it will be after the horizon, the rest as it is now.
pub(super) const LATER_SHARE: (i64, i64) = (2, 5);

/// The horizon ends at this rate, in departures that one instance expects: 5/2, so it lasts 0.4 mean lives. A card with
/// one instance left is likelier to be whole again than one with three.
pub(super) const HORIZON_RATE: (i64, i64) = (5, 2);

/// A profile's price falls with its places C in the cluster as (s / (s + C))^3, s^2 = 9 + 0.14 * cards: running out is a
/// matter of fluctuations, which grow with the square root of the cluster; on few cards single places count.
pub(super) const PRICE_SCALE_FLOOR: u64 = 9;
/// The part of s^2 that grows with the cluster, per card.
pub(super) const PRICE_SCALE_PER_CARD: (u64, u64) = (14, 100);

/// Weight of one arrival in the learned counts.
pub(super) const ARRIVAL_WEIGHT: u64 = 1 << 16;

/// Every profile counts as if it had been asked for once more than it was: before anything is known, a whole card or a
/// 4g or 3g place is still not broken without need.
pub(super) const PRIOR_ARRIVALS: u64 = 1;

/// The mix is relearned at every doubling up to this arrival ...
pub(super) const RELEARN_DOUBLING_UNTIL: u64 = 512;

/// ... and then every so many arrivals,
pub(super) const RELEARN_EVERY_ARRIVALS: u64 = 1000;

/// when old counts lose 1/2^5: the half-life is 22,000 arrivals.
pub(super) const DECAY_SHIFT: u32 = 5;

/// Cards of one fleet.
pub const MAX_CARDS: usize = 1 << 20;

/// Instances that one request may ask for: sixteen cards of seven.
pub const MAX_INSTANCES: u8 = 112;
