//! The naive twin: everything from the formulas, one pod, one node and one draw at a time, with no table and no
//! memory. Oracle of the property tests and baseline of the benchmarks; shares only the random numbers and the
//! [parameters](super::params) with the fast path.

use super::mix::Mix;
use super::params::{
    CPU_ONLY_TAKE, FILL_STREAMS, MISS_LIMIT, PRICE_BITS, PRICE_IDLE_OFFSET, PRICE_RATIO_CAP,
    PRICE_WEIGHT, WASTE_WEIGHT,
};
use super::streams::randomness;
use crate::cluster::FreeShape;
use crate::request::{GpuRequest, Kind};
use crate::score::Placed;
use crate::units::{DeviceMask, MilliCpu, MilliGpu};

/// Index of the kind that `stream` draws at `step`, and whether a CPU-only pod takes its CPU there.
fn draw(mix: &Mix, stream: usize, step: usize) -> (usize, bool) {
    let (ticket, coin) = randomness(stream, step);
    let mut point = ((u128::from(ticket) * u128::from(mix.total())) >> 64) as u64;
    let mut kind = 0;
    while point >= mix.kinds()[kind].weight {
        point -= mix.kinds()[kind].weight;
        kind += 1;
    }
    (kind, (coin >> 32) * CPU_ONLY_TAKE.1 < CPU_ONLY_TAKE.0 << 32)
}

fn idle(node: &FreeShape) -> u64 {
    node.free[..usize::from(node.gpu_count)].iter().map(|free| u64::from(free.get())).sum()
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

/// All choices of devices that a placement may make.
fn choices(node: &FreeShape, kind: &Kind) -> Vec<DeviceMask> {
    if !kind.models.contains(node.model) || !cpu_fits(node, kind) {
        return Vec::new();
    }
    let milli = kind.gpu.milli();
    let mut fitting: Vec<usize> =
        (0..usize::from(node.gpu_count)).filter(|&device| node.free[device] >= milli).collect();
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

/// Idle milli-GPU after one fill.
fn fill(mix: &Mix, node: &FreeShape, stream: usize) -> u64 {
    let mut node = *node;
    let mut misses = 0;
    let mut step = 0;
    while misses < MISS_LIMIT && idle(&node) > 0 {
        let (index, takes_cpu) = draw(mix, stream, step);
        let kind = &mix.kinds()[index].kind;
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
pub fn waste(mix: &Mix, node: &FreeShape) -> u64 {
    (0..FILL_STREAMS).map(|stream| fill(mix, node, stream)).sum()
}

/// U_m of a node in milli-GPU.
#[must_use]
pub fn usable_milli(kind: &Kind, node: &FreeShape) -> u64 {
    if kind.gpu.is_none() || !kind.models.contains(node.model) {
        return 0;
    }
    let devices = node.free[..usize::from(node.gpu_count)].iter();
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

/// P_m of every kind over a cluster.
#[must_use]
pub fn prices(mix: &Mix, nodes: &[FreeShape]) -> Vec<u64> {
    let idle: u64 = nodes.iter().map(idle).sum();
    let price = |weight: u64, kind: &Kind| {
        if kind.gpu.is_none() {
            return 0;
        }
        let usable: u64 = nodes.iter().map(|node| usable_milli(kind, node)).sum();
        let (above, below) = (
            u128::from(idle + PRICE_IDLE_OFFSET),
            u128::from(usable + u64::from(kind.gpu.total_milli())),
        );
        let cap = u128::from(PRICE_RATIO_CAP);
        let (above, below) = if above > cap * below { (cap, 1) } else { (above, below) };
        let price = (u128::from(weight) << PRICE_BITS) * above * above
            / (u128::from(mix.total()) * below * below);
        price as u64
    };
    mix.kinds().iter().map(|kind| price(kind.weight, &kind.kind)).collect()
}

/// The cheapest placement of a kind on a node under the given prices.
#[must_use]
pub fn place(mix: &Mix, prices: &[u64], node: &FreeShape, kind: &Kind) -> Option<Placed> {
    let value = |node: &FreeShape| -> i128 {
        let worth: i128 = mix
            .kinds()
            .iter()
            .zip(prices)
            .map(|(known, &price)| i128::from(price) * i128::from(usable_milli(&known.kind, node)))
            .sum();
        i128::from(WASTE_WEIGHT) * i128::from(waste(mix, node)) - i128::from(PRICE_WEIGHT) * worth
    };
    choices(node, kind)
        .into_iter()
        .map(|devices| (value(&take(node, kind, devices)) - value(node), devices))
        .min_by_key(|&(cost, _)| cost)
        .map(|(cost, devices)| Placed { cost: i64::try_from(cost).unwrap_or(i64::MAX), devices })
}
