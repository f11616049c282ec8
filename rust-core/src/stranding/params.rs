//! Every number of the expected-stranding measure, with the reason for its value. Nothing else in this module tree
//! holds a tunable constant.

/// Random fills per free shape, a power of two: draws are stratified over them. Fewer are as good on most loads, but
/// more variable from seed to seed.
pub const FILL_STREAMS: usize = 32;

/// Draws of one stream before it repeats. A fill of 16 empty cards places about 50 pods and then misses 60 times, so
/// few fills ever wrap. A power of two and a multiple of [`LOOK_AHEAD`].
pub const STREAM_STEPS: usize = 256;

/// A fill ends after this many misses in a row. With 30, as in the first model, rare kinds that still fit are often
/// not drawn any more.
pub const MISS_LIMIT: u32 = 60;

/// Draws that one word of a stream table can look ahead from any position of its first half.
pub const LOOK_AHEAD: usize = 64;

/// A drawn CPU-only kind takes its CPU with a probability (in per mille) between these: most CPU-only pods find room
/// beside busy GPUs while CPU is plentiful, few do when it is short.
pub const CPU_ONLY_TAKE_PERMILLE: (i128, i128) = (100, 800);

/// CPU slack of the cluster, in tenths, at which the probability is highest and lowest, linear between: slack is the
/// free CPU that the coming GPU pods leave over, divided by what the CPU-only pods that come with them will want.
/// Below 1 they take CPU from GPU pods for sure.
pub const CPU_SLACK_TENTHS: (i128, i128) = (10, 15);

/// Seed of the random streams. Any value will do; one fixed value makes every kernel agree.
pub const STREAM_SEED: u64 = 0x6d6f_7274_6973_6531;

/// The mix keeps the commonest kinds until they cover this many of 1,000 pods: all of them, up to
/// [`MAX_MIX_KINDS`](crate::limits::MAX_MIX_KINDS). FGD's 95 % would drop the rare large kinds, which then have no price
/// and are rejected.
pub const MIX_COVERAGE_PERMILLE: u64 = 1000;

/// Coverage of the *typical pods* of Fragmentation Gradient Descent, in per mille, as published.
pub const TYPICAL_COVERAGE_PERMILLE: u64 = 950;

/// Prices carry this many binary digits: P = floor(2^16 p).
pub const PRICE_BITS: u32 = 16;

/// Largest ratio (idle GPU) / (idle GPU a kind can still use) that enters a price. Keeps P below 2^36, and a kind that
/// fits nowhere from drowning all others.
pub const PRICE_RATIO_CAP: u64 = 1024;

/// Milli-GPU added to the idle GPU in the ratio, one card: prices stay defined when nothing is idle.
pub const PRICE_IDLE_OFFSET: u64 = 1000;

/// Squared ratio up to which a kind is not scarce, times 2^16: 1.5. A price is for the excess only, so kinds that fit
/// everywhere cost nothing.
pub const PRICE_FREE_SQUARE: u64 = 3 << (PRICE_BITS - 1);

/// Weight of prices against W is this ratio times (idle GPU) / (GPU of the cluster): while much is idle a place lost
/// now is a place less for a long time, near the end W is exact.
pub const PRICE_SHARE: (u64, u64) = (1, 5);

/// Kinds that take at least this many devices count [`LARGE_KIND_FACTOR`] times in prices: eight are the whole of most
/// nodes, and no two rests add up to one.
pub const LARGE_KIND_DEVICES: u8 = 8;

/// See [`LARGE_KIND_DEVICES`]. With 1, more 8-GPU pods are rejected than by FGD; beyond 30 little changes.
pub const LARGE_KIND_FACTOR: u64 = 30;

/// Weight of one unit of dW' (milli-GPU summed over the fills) in a cost: the unit of prices.
pub const WASTE_WEIGHT: i64 = 1 << PRICE_BITS;

/// Weight of one unit of price times lost places in a cost: the number of fills, since W' is a sum over them.
pub const PRICE_WEIGHT: i64 = FILL_STREAMS as i64;

/// Prices are refreshed after this many arrivals: one arrival moves them by less than noise.
pub const PRICE_REFRESH_ARRIVALS: u64 = 25;

/// The mix is relearned at 1, 2, 4 ... up to this arrival: early on every doubling tells much.
pub const RELEARN_DOUBLING_UNTIL: u64 = 512;

/// Afterwards the mix is relearned whenever the number of arrivals is a multiple of this.
pub const RELEARN_EVERY_ARRIVALS: u64 = 1000;

/// At each of the later relearns old counts lose 1/2^5: a half-life of 22,000 arrivals, long enough to know kinds of
/// one pod in a thousand, short enough to follow a change of load within days.
pub const DECAY_SHIFT: u32 = 5;

/// Weight of one arrival in the learned counts; binary digits below one arrival keep decay exact enough.
pub const ARRIVAL_WEIGHT: u64 = 1 << 16;

/// A kind whose decayed weight is below this is forgotten: 1/64 of an arrival.
pub const FORGET_WEIGHT: u64 = ARRIVAL_WEIGHT >> 6;

/// Kinds counted while learning; the lightest makes room for a new one. Eight times what the mix can hold.
pub const MAX_COUNTED_KINDS: usize = 4096;

/// Pod UIDs remembered so that retries count once, oldest forgotten first: 1 MiB of UIDs.
pub const MAX_REMEMBERED_UIDS: usize = 65_536;

/// Weights of a mix are halved until their sum is at most this, which bounds all products of prices and fragment
/// amounts (see [`prices`](super::scarcity::Prices) and [`fgd`](super::fgd)).
pub const MAX_MIX_WEIGHT: u64 = 1 << 32;

const _: () = {
    assert!(STREAM_STEPS.is_power_of_two() && STREAM_STEPS.is_multiple_of(LOOK_AHEAD));
    assert!(MISS_LIMIT as usize <= LOOK_AHEAD && LOOK_AHEAD == 64);
    assert!(FILL_STREAMS.is_power_of_two() && FILL_STREAMS <= 256);
    assert!(CPU_SLACK_TENTHS.0 < CPU_SLACK_TENTHS.1);
    assert!(PRICE_SHARE.0 <= PRICE_SHARE.1 && PRICE_SHARE.1 < 1 << 16);
};
