//! U and prices: how many pods of each kind a free shape still holds, and what such a place is worth.
//!
//! For kind m (frequency f_m, n devices of `milli` each, cpu_m; g_m = n * milli), scheduling-quality notes B.4:
//! U_m(node) = g_m * min(floor(cpu_free / cpu_m), sum_i floor(free_i / milli) if n = 1, else
//! floor(#{i: free_i >= milli} / n)); 0 where the model is not allowed and for CPU-only kinds. With R the idle GPU of
//! the cluster, T all its GPU and C_m the sum of U_m over it, the notes' price is p_m = f_m r^2 with
//! r = min((R + 1000) / (C_m + g_m), 1024), weighted 0.1 against W. Here it is for scarcity in excess only, large kinds
//! count more, and the weight falls with the idle GPU (the reasons are in [`params`](super::params)):
//! p_m = 0.2 R / T * f_m * large_m * max(0, r^2 - 1.5), in units of 2^-16. A place of kind m costs p_m g_m.
//!
//! U_m depends on (cpu, gpu) of the kind and, by zero or one, on its models. So U is counted per *request class*
//! (distinct cpu and gpu), and the prices of the kinds of one class that a model allows are added up beforehand.

use super::mix::{Mix, WeightedKind};
use super::models::ModelClasses;
use super::params::{
    LARGE_KIND_DEVICES, LARGE_KIND_FACTOR, PRICE_BITS, PRICE_FREE_SQUARE, PRICE_IDLE_OFFSET,
    PRICE_RATIO_CAP, PRICE_SHARE,
};
use super::shape::{Shape, clamp_cpu};
use crate::limits::{CARD_MILLI, MAX_GPUS_PER_NODE};
use crate::request::GpuRequest;
use crate::units::MilliCpu;

/// Rows are padded to this many classes, so that loops over them have no remainder.
const LANES: usize = 8;

/// Request classes of a mix, and the tables that count places.
#[derive(Default, Debug)]
pub(super) struct Places {
    classes: Vec<(MilliCpu, GpuRequest)>,
    /// Class of each kind of the mix; `None` for CPU-only kinds.
    class_of: Vec<Option<usize>>,
    /// Classes, rounded up to [`LANES`].
    width: usize,
    cpu: Vec<u32>,
    /// floor((2^32 - 1) / cpu).
    reciprocal: Vec<u32>,
    /// All ones for classes without CPU: any number fits.
    at_least: Vec<u32>,
    /// Row w: places on w whole devices.
    whole_rows: Vec<u16>,
    /// Row l: places of each share class on one device with l milli free.
    share_rows: Vec<u16>,
}

impl Places {
    pub(super) fn new(mix: &Mix) -> Self {
        let mut classes: Vec<(MilliCpu, GpuRequest)> = mix
            .kinds()
            .iter()
            .filter(|k| !k.kind.gpu.is_none())
            .map(|k| (k.kind.cpu, k.kind.gpu))
            .collect();
        classes.sort_unstable();
        classes.dedup();
        let class_of = mix
            .kinds()
            .iter()
            .map(|k| classes.binary_search(&(k.kind.cpu, k.kind.gpu)).ok())
            .collect();
        let width = classes.len().next_multiple_of(LANES);
        let mut places = Self { classes, class_of, width, ..Self::default() };
        places.cpu = vec![1; width];
        places.reciprocal = vec![0; width];
        places.at_least = vec![0; width];
        places.whole_rows = vec![0; width * (MAX_GPUS_PER_NODE + 1)];
        places.share_rows = vec![0; width * (usize::from(CARD_MILLI) + 1)];
        for class in 0..places.classes.len() {
            places.fill_class(class);
        }
        places
    }

    fn fill_class(&mut self, class: usize) {
        let (cpu, gpu) = self.classes[class];
        let cpu = clamp_cpu(cpu.0).cast_unsigned();
        self.cpu[class] = cpu.max(1);
        self.reciprocal[class] = u32::MAX / cpu.max(1);
        self.at_least[class] = if cpu == 0 { u32::MAX } else { 0 };
        // What fits on `whole` free cards, and what on one card of each level.
        match gpu {
            GpuRequest::None => {} // not a class
            GpuRequest::Whole { count } => {
                for whole in 0..=MAX_GPUS_PER_NODE {
                    let fit = whole / usize::from(count);
                    self.whole_rows[whole * self.width + class] = fit as u16;
                }
            }
            GpuRequest::Share { milli } => {
                let on_card = usize::from(CARD_MILLI / milli.get());
                for whole in 0..=MAX_GPUS_PER_NODE {
                    self.whole_rows[whole * self.width + class] = (whole * on_card) as u16;
                }
                for level in 0..=CARD_MILLI {
                    let row = usize::from(level) * self.width;
                    self.share_rows[row + class] = level / milli.get();
                }
            }
        }
    }

    pub(super) const fn width(&self) -> usize {
        self.width
    }

    /// Request class of kind `kind` of the mix.
    pub(super) fn class_of(&self, kind: usize) -> Option<usize> {
        self.class_of[kind]
    }

    /// Places of every class on `shape` as far as devices and CPU go; models are left to the prices.
    pub(super) fn count(&self, shape: &Shape, row: &mut [u16]) {
        let row = &mut row[..self.width];
        let whole = shape.whole();
        row.copy_from_slice(&self.whole_rows[whole * self.width..][..self.width]);
        for &level in shape.levels[whole..].iter().take_while(|&&level| level > 0) {
            let share = &self.share_rows[usize::from(level) * self.width..][..self.width];
            for (places, more) in row.iter_mut().zip(share) {
                *places += more;
            }
        }
        let cpu = shape.cpu.cast_unsigned();
        let (cpus, reciprocals) = (&self.cpu[..self.width], &self.reciprocal[..self.width]);
        let at_least = &self.at_least[..self.width];
        for class in 0..self.width {
            // One below floor(cpu / cpu_m) at most, since cpu < 2^31.
            let low = ((u64::from(cpu) * u64::from(reciprocals[class])) >> 32) as u32;
            let exact = low + u32::from((low + 1) * cpus[class] <= cpu);
            let by_cpu = exact | at_least[class];
            row[class] = u32::from(row[class]).min(by_cpu) as u16;
        }
    }
}

/// What the prices of a mix depend on beside the kinds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Market<'a> {
    /// Weight of each kind, and their sum, at most 2^33.
    pub(super) weights: &'a [u64],
    /// T, GPU of the cluster.
    pub(super) capacity_milli: u64,
    /// R, idle GPU.
    pub(super) idle_milli: u64,
    /// C_m of each kind.
    pub(super) usable_milli: &'a [u64],
}

/// Prices of a mix at one time.
///
/// Bounds: f_m sums to 1, r^2 is at most 2^20, the rest of a price at most 6, so sum p_m < 2^39 in units of 2^-16; U_m
/// is at most the idle GPU of a node, 16,000 < 2^14. So sum p_m U_m < 2^53, and with the weights of a cost below 2^59:
/// `i64` holds every cost.
#[derive(Debug, Default)]
pub(super) struct Prices {
    /// p_m g_m of each kind of the mix: the price of one place.
    pub(super) of_kind: Vec<u64>,
    /// Per model class and request class: sum of p_m g_m over the kinds allowed, low and high halves.
    low: Vec<u32>,
    high: Vec<u32>,
}

/// Largest sum of the prices of one place of every kind.
pub(super) const MAX_PRICES: u64 = 1 << 53;

impl Prices {
    /// Prices of the kinds of `mix`.
    pub(super) fn new(mix: &Mix, market: &Market<'_>) -> Self {
        let total = market.weights.iter().sum();
        let kinds = mix.kinds().iter().zip(market.weights).zip(market.usable_milli);
        let price = |((kind, &weight), &usable): ((&WeightedKind, &u64), &u64)| {
            price(market, kind.kind.gpu, weight, total, usable)
        };
        Self::known(kinds.map(price).collect())
    }

    /// Prices computed before.
    pub(super) fn known(of_kind: Vec<u64>) -> Self {
        Self { of_kind, low: Vec::new(), high: Vec::new() }
    }

    /// Adds up the prices per model class and request class. Once per set of prices, before [`Prices::worth`].
    pub(super) fn tabulate(&mut self, mix: &Mix, models: &ModelClasses, places: &Places) {
        let width = places.width();
        let mut sums = vec![0u64; models.len() * width];
        for index in 0..mix.kinds().len() {
            let Some(class) = places.class_of(index) else { continue };
            for model in (0..models.len()).filter(|&model| models.allows(model, index)) {
                sums[model * width + class] += self.of_kind[index];
            }
        }
        self.low = sums.iter().map(|&sum| sum as u32).collect();
        self.high = sums.iter().map(|&sum| (sum >> 32) as u32).collect();
    }

    /// Sum of P_m U_m over the kinds that `class` of models allows, for the places of a shape.
    pub(super) fn worth(&self, class: u8, row: &[u16]) -> u64 {
        let first = usize::from(class) * row.len();
        let low = &self.low[first..first + row.len()];
        let high = &self.high[first..first + row.len()];
        let mut sums = [0u64; 2];
        for ((&places, &low), &high) in row.iter().zip(low).zip(high) {
            sums[0] += u64::from(places) * u64::from(low);
            sums[1] += u64::from(places) * u64::from(high);
        }
        sums[0] + (sums[1] << 32)
    }
}

/// floor(2^16 p_m g_m), the square of the ratio rounded down to 2^-16 first; 0 for CPU-only kinds. With weights below
/// 2^33, idle GPU below 2^32 and prices below 2^42 per milli every product is below 2^124.
fn price(market: &Market<'_>, gpu: GpuRequest, weight: u64, total: u64, usable_milli: u64) -> u64 {
    let gpu_milli = u128::from(gpu.total_milli());
    let capacity = u128::from(market.capacity_milli);
    if gpu_milli == 0 || total == 0 || capacity == 0 {
        return 0;
    }
    let usable = u128::from(usable_milli) + gpu_milli;
    let idle = u128::from(market.idle_milli + PRICE_IDLE_OFFSET);
    let idle = idle.min(usable * u128::from(PRICE_RATIO_CAP));
    let square = ((idle * idle) << PRICE_BITS) / (usable * usable);
    let excess = square.saturating_sub(u128::from(PRICE_FREE_SQUARE));
    let large = if gpu.count() >= LARGE_KIND_DEVICES { LARGE_KIND_FACTOR } else { 1 };
    let (share, of) = PRICE_SHARE;
    let demand = u128::from(weight) * u128::from(large * share);
    let price = demand * excess * gpu_milli * u128::from(market.idle_milli)
        / (u128::from(total) * capacity * u128::from(of));
    price as u64
}
