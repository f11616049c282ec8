//! The naive twin: everything from the formulas, one pod, one node and one draw at a time, with no table and no
//! memory. Oracle of the property tests and baseline of the benchmarks; shares only the random numbers and the
//! [parameters](super::params) with the fast path.

use super::Stranding;
use super::mix::Mix;
use super::params::{
    CPU_ONLY_TAKE_PERMILLE, CPU_SLACK_TENTHS, FILL_STREAMS, LARGE_KIND_DEVICES, LARGE_KIND_FACTOR,
    MISS_LIMIT, PRICE_BITS, PRICE_FREE_SQUARE, PRICE_IDLE_OFFSET, PRICE_RATIO_CAP, PRICE_SHARE,
    PRICE_WEIGHT, WASTE_WEIGHT,
};
use super::streams::{Tickets, scale};
use crate::cluster::FreeShape;
use crate::limits::CARD_MILLI;
use crate::request::{GpuRequest, Kind};
use crate::score::Placed;
use crate::units::{DeviceMask, MilliCpu, MilliGpu};

/// Expected stranding, computed from scratch each time.
#[derive(Clone, Debug)]
pub struct Twin {
    mix: Mix,
    /// Kinds and weights in the order of the draws.
    draws: Vec<(Kind, u64)>,
    tickets: Tickets,
    take_permille: u64,
}

fn idle(node: &FreeShape) -> u64 {
    node.levels().iter().map(|free| u64::from(free.get())).sum()
}

fn cpu_fits(node: &FreeShape, kind: &Kind) -> bool {
    kind.cpu.0 == 0 || kind.cpu.0 <= node.cpu_free.0
}

/// Places a kind on the given devices.
fn take(node: &FreeShape, kind: &Kind, devices: DeviceMask) -> FreeShape {
    let mut after = *node;
    after.cpu_free = MilliCpu(node.cpu_free.0 - kind.cpu.0);
    for device in devices.iter() {
        after.free[device] = after.free[device].minus(kind.gpu.milli());
    }
    after
}

/// All choices of devices that a placement may make, the tightest first.
fn choices(node: &FreeShape, kind: &Kind) -> Vec<DeviceMask> {
    if !kind.models.contains(node.model) || !cpu_fits(node, kind) {
        return Vec::new();
    }
    let milli = kind.gpu.milli();
    let mut fitting: Vec<usize> =
        (0..node.levels().len()).filter(|&device| node.free[device] >= milli).collect();
    fitting.sort_by_key(|&device| (node.free[device], device));
    match kind.gpu {
        GpuRequest::None => vec![DeviceMask::EMPTY],
        GpuRequest::Whole { count } if usize::from(count) <= fitting.len() => {
            vec![fitting[..usize::from(count)].iter().fold(DeviceMask::EMPTY, |m, &d| m.with(d))]
        }
        GpuRequest::Whole { .. } => Vec::new(),
        GpuRequest::Share { .. } => {
            fitting.dedup_by_key(|device| node.free[*device]);
            fitting.into_iter().map(DeviceMask::only).collect()
        }
    }
}

/// U_m of a node in milli-GPU.
#[must_use]
pub fn usable_milli(kind: &Kind, node: &FreeShape) -> u64 {
    if kind.gpu.is_none() || !kind.models.contains(node.model) {
        return 0;
    }
    let devices = node.levels().iter();
    let milli: MilliGpu = kind.gpu.milli();
    let by_devices: u64 = match kind.gpu {
        GpuRequest::Whole { count } if count > 1 => {
            (devices.filter(|&&free| free >= milli).count() / usize::from(count)) as u64
        }
        _ => devices.map(|free| u64::from(free.get() / milli.get())).sum(),
    };
    let by_cpu = match kind.cpu.0 {
        0 => u64::MAX,
        cpu => (node.cpu_free.0.max(0) / cpu).unsigned_abs(),
    };
    by_devices.min(by_cpu) * u64::from(kind.gpu.total_milli())
}

/// Probability, in per mille, that a drawn CPU-only pod takes its CPU in a cluster of these nodes.
#[must_use]
pub fn take_permille(mix: &Mix, nodes: &[FreeShape]) -> u64 {
    let sum = |value: &dyn Fn(&Kind) -> i64| -> i128 {
        mix.kinds().iter().map(|k| i128::from(k.weight) * i128::from(value(&k.kind))).sum()
    };
    let gpu = sum(&|kind| i64::from(kind.gpu.total_milli()));
    let cpu_gpu = sum(&|kind| if kind.gpu.is_none() { 0 } else { kind.cpu.0 });
    let cpu_only = sum(&|kind| if kind.gpu.is_none() { kind.cpu.0 } else { 0 });
    let idle: i128 = nodes.iter().map(|node| i128::from(idle(node))).sum();
    let cpu: i128 = nodes.iter().map(|node| i128::from(node.cpu_free.0.max(0))).sum();
    let (least, most) = CPU_ONLY_TAKE_PERMILLE;
    let (short, plenty) = CPU_SLACK_TENTHS;
    let (left, wanted) = (cpu * gpu - idle * cpu_gpu, idle * cpu_only);
    let permille = if wanted == 0 || 10 * left >= plenty * wanted {
        least
    } else if 10 * left <= short * wanted {
        most
    } else {
        let steps = (plenty - short) * wanted;
        least + (most - least) * (plenty * wanted - 10 * left) / steps
    };
    permille.unsigned_abs() as u64
}

/// Price of one place of every kind over a cluster, in 2^-16 milli-GPU.
#[must_use]
pub fn prices(mix: &Mix, weights: &[u64], nodes: &[FreeShape]) -> Vec<u64> {
    let idle: u64 = nodes.iter().map(idle).sum();
    let capacity: u64 = nodes.iter().map(|n| u64::from(n.gpu_count) * u64::from(CARD_MILLI)).sum();
    let total: u64 = weights.iter().sum();
    let price = |weight: u64, kind: &Kind| {
        if kind.gpu.is_none() || capacity == 0 || total == 0 {
            return 0;
        }
        let gpu = u128::from(kind.gpu.total_milli());
        let usable: u64 = nodes.iter().map(|node| usable_milli(kind, node)).sum();
        let (above, below) = (u128::from(idle + PRICE_IDLE_OFFSET), u128::from(usable) + gpu);
        let cap = u128::from(PRICE_RATIO_CAP);
        let square = if above > cap * below {
            (cap * cap) << PRICE_BITS
        } else {
            ((above * above) << PRICE_BITS) / (below * below)
        };
        let excess = square.saturating_sub(u128::from(PRICE_FREE_SQUARE));
        let large = if kind.gpu.count() >= LARGE_KIND_DEVICES { LARGE_KIND_FACTOR } else { 1 };
        let above = u128::from(weight) * u128::from(large) * excess * gpu;
        let price = above * u128::from(PRICE_SHARE.0) * u128::from(idle)
            / (u128::from(total) * u128::from(PRICE_SHARE.1) * u128::from(capacity));
        price as u64
    };
    mix.kinds().iter().zip(weights).map(|(kind, &weight)| price(weight, &kind.kind)).collect()
}

impl Twin {
    /// The twin of a mix.
    #[must_use]
    pub fn new(mix: Mix, take_permille: u64) -> Self {
        Self::with_tickets(mix, Tickets::new(), take_permille)
    }

    fn with_tickets(mix: Mix, tickets: Tickets, take_permille: u64) -> Self {
        let mut draws: Vec<(Kind, u64)> = mix.kinds().iter().map(|k| (k.kind, k.weight)).collect();
        draws.sort_by_key(|(kind, _)| (kind.gpu.count(), kind.gpu.milli(), kind.cpu, kind.models));
        Self { mix, draws, tickets, take_permille }
    }

    /// The twin of what `stranding` knows now.
    #[must_use]
    pub fn of(stranding: &Stranding) -> Self {
        let tickets = stranding.tickets.clone();
        Self::with_tickets(stranding.mix().clone(), tickets, stranding.measure.take_permille)
    }

    /// The kind that `stream` draws at `step`, and whether a CPU-only pod takes its CPU there.
    fn draw(&self, stream: usize, step: usize) -> (&Kind, bool) {
        let (ticket, coin) = self.tickets.at(stream, step);
        let mut point = scale(ticket, self.mix.total());
        let mut draw = 0;
        while point >= self.draws[draw].1 {
            point -= self.draws[draw].1;
            draw += 1;
        }
        (&self.draws[draw].0, scale(coin, 1000) < self.take_permille)
    }

    /// Idle milli-GPU after one fill.
    fn fill(&self, node: &FreeShape, stream: usize) -> u64 {
        let mut node = *node;
        let mut misses = 0;
        let mut step = 0;
        while misses < MISS_LIMIT && idle(&node) > 0 {
            let (kind, takes_cpu) = self.draw(stream, step);
            step += 1;
            misses += 1;
            if kind.gpu.is_none() {
                if takes_cpu && cpu_fits(&node, kind) {
                    node.cpu_free.0 -= kind.cpu.0;
                }
            } else if let Some(&tightest) = choices(&node, kind).first() {
                node = take(&node, kind, tightest);
                misses = 0;
            }
        }
        idle(&node)
    }

    /// W': idle milli-GPU left over, summed over all streams.
    #[must_use]
    pub fn waste(&self, node: &FreeShape) -> u64 {
        (0..FILL_STREAMS).map(|stream| self.fill(node, stream)).sum()
    }

    /// The cheapest placement of a kind on a node under the given [`prices`].
    #[must_use]
    pub fn place(&self, prices: &[u64], node: &FreeShape, kind: &Kind) -> Option<Placed> {
        let value = |node: &FreeShape| -> i128 {
            let worth = |(known, &price): (&super::WeightedKind, &u64)| {
                let gpu = i128::from(known.kind.gpu.total_milli().max(1));
                i128::from(price) * i128::from(usable_milli(&known.kind, node)) / gpu
            };
            let worth: i128 = self.mix.kinds().iter().zip(prices).map(worth).sum();
            i128::from(WASTE_WEIGHT) * i128::from(self.waste(node))
                - i128::from(PRICE_WEIGHT) * worth
        };
        choices(node, kind)
            .into_iter()
            .map(|devices| (value(&take(node, kind, devices)) - value(node), devices))
            .min_by_key(|&(cost, _)| cost)
            .map(|(cost, devices)| Placed {
                cost: i64::try_from(cost).unwrap_or(i64::MAX),
                devices,
            })
    }
}
