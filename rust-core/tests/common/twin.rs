//! The rules again, node by node and without caches, written from their published form: the oracle of the tests.

use mortise_core::cluster::{NodeView, pod_class};
use mortise_core::hash::mix64;
use mortise_core::stranding::MixMode;
use mortise_core::stranding::fgd::TypicalPods;
use mortise_core::stranding::twin::Twin;
use mortise_core::{Config, DeviceMask, GpuRequest, Kernel, NodeRef, PodRequest, Strategy};

/// Order, node, devices: the first of all feasible candidates; and how many are feasible.
pub struct Naive {
    pub best: Option<(NodeRef, DeviceMask)>,
    pub cost: i64,
    pub feasible: u32,
}

pub fn fits(node: &NodeView, pod: &PodRequest) -> bool {
    let shape = &node.shape;
    let room = (0..usize::from(shape.gpu_count))
        .filter(|&device| shape.free[device].get() >= pod.gpu.milli().get())
        .count();
    let gpu = match pod.gpu {
        GpuRequest::None => true,
        GpuRequest::Whole { count } => room >= usize::from(count),
        GpuRequest::Share { .. } => node.shares_offered && room >= 1,
    };
    gpu && pod.models.contains(shape.model)
        && (pod.cpu.0 == 0 || pod.cpu <= shape.cpu_free)
        && (pod.memory.0 == 0 || pod.memory <= node.memory_free)
}

pub fn decide(
    kernel: &Kernel,
    config: &Config,
    pod: &PodRequest,
    candidates: &[NodeRef],
    salt: u64,
) -> Naive {
    let mut best: Option<((i64, u64, u64), NodeRef, DeviceMask)> = None;
    let mut feasible = 0;
    let twin = Twin::of(kernel.stranding());
    for &node_ref in candidates {
        let node = kernel.cluster().view_for(node_ref.index as usize, pod.uid, pod.priority);
        if !fits(&node, pod) {
            continue;
        }
        feasible += 1;
        let (cost, devices) = place(kernel, &twin, config, &node, pod);
        let order = (cost, mix64(config.seed ^ node.key.0 ^ salt), node.key.0);
        if best.is_none_or(|(least, ..)| order < least) {
            best = Some((order, node_ref, devices));
        }
    }
    Naive {
        best: best.map(|(_, node, devices)| (node, devices)),
        cost: best.map_or(i64::MIN, |((cost, ..), ..)| cost),
        feasible,
    }
}

/// Cost and devices on a node where the pod fits.
fn place(
    kernel: &Kernel,
    twin: &Twin,
    config: &Config,
    node: &NodeView,
    pod: &PodRequest,
) -> (i64, DeviceMask) {
    let devices = published_devices(node, pod);
    if pod.gpu == GpuRequest::None && !config.score_cpu_only {
        return (0, DeviceMask::EMPTY);
    }
    let score = match config.strategy {
        Strategy::ExpectedStranding => {
            let prices = kernel.stranding().prices();
            let placed = twin.place(prices, &node.shape, &pod.kind()).expect("the pod fits");
            return (placed.cost, placed.devices);
        }
        Strategy::Fgd => return fgd(kernel, config, node, pod),
        Strategy::BestFit => best_fit(node, pod),
        Strategy::DotProduct => dot_product(node, pod),
        Strategy::GpuPacking => gpu_packing(node, pod),
        Strategy::GpuClustering => gpu_clustering(node, pod),
        Strategy::WholeCardFirst => return whole_card_first(node, pod),
        Strategy::LeastAllocated => least_allocated(node, pod),
        Strategy::Random => 0,
    };
    (-score, devices)
}

fn free(node: &NodeView) -> Vec<i64> {
    node.shape.levels().iter().map(|milli| i64::from(milli.get())).collect()
}

fn published_devices(node: &NodeView, pod: &PodRequest) -> DeviceMask {
    let free = free(node);
    let mut order: Vec<usize> = (0..free.len()).collect();
    if let GpuRequest::Share { .. } = pod.gpu {
        order.sort_by_key(|&device| free[device]);
    }
    let need = i64::from(pod.gpu.milli().get());
    let fitting = order.into_iter().filter(|&device| free[device] >= need);
    fitting.take(usize::from(pod.gpu.count())).fold(DeviceMask::EMPTY, DeviceMask::with)
}

fn fgd(kernel: &Kernel, config: &Config, node: &NodeView, pod: &PodRequest) -> (i64, DeviceMask) {
    let typical = match &config.mix {
        MixMode::Fixed(counts) => TypicalPods::from_counts(counts.iter().copied()),
        MixMode::Learned => TypicalPods::from_mix(kernel.stranding().mix()),
    };
    let total = typical.total_weight().max(1) as f64;
    let (score, devices) = typical
        .place(&node.shape, &pod.kind(), |fall| {
            let x = fall as f64 / total / 1000.0;
            (100.0 / (1.0 + (-x).exp())).trunc() as i64
        })
        .expect("the pod fits");
    (-score, devices)
}

/// 100 * (1 - 0.5 * (CPU left) / 128000 - 0.5 * (GPU left) / 8000), truncated.
fn best_fit(node: &NodeView, pod: &PodRequest) -> i64 {
    let cpu = i128::from(node.shape.cpu_free.0 - pod.cpu.0);
    let gpu = i128::from(free(node).iter().sum::<i64>() - i64::from(pod.gpu.total_milli()));
    let denominator = 2 * 128_000 * 8_000i128;
    ((100 * denominator - 100 * 8_000 * cpu - 100 * 128_000 * gpu) / denominator) as i64
}

/// 100 * (1 - dot / 2), dot = (cpuFree / 128000)(cpuReq / 128000) + (gpuFree / 8000)(gpuReq / 8000), truncated.
fn dot_product(node: &NodeView, pod: &PodRequest) -> i64 {
    let cpu = i128::from(node.shape.cpu_free.0) * i128::from(pod.cpu.0);
    let gpu = i128::from(free(node).iter().sum::<i64>()) * i128::from(pod.gpu.total_milli());
    let (c2, g2) = (128_000i128.pow(2), 8_000i128.pow(2));
    ((100 * 2 * c2 * g2 - 100 * (cpu * g2 + gpu * c2)) / (2 * c2 * g2)) as i64
}

fn gpu_packing(node: &NodeView, pod: &PodRequest) -> i64 {
    if pod.gpu == GpuRequest::None {
        return 0;
    }
    let free = free(node);
    if free.iter().all(|&free| free == 1000) {
        return (33 - free.len() as i64).max(free.len() as i64);
    }
    let mut fitting: Vec<i64> =
        free.into_iter().filter(|&free| free >= i64::from(pod.gpu.milli().get())).collect();
    fitting.sort_unstable();
    let used = &fitting[..usize::from(pod.gpu.count())];
    match used.iter().filter(|&&free| free == 1000).count() as i64 {
        0 => (100 - used.iter().map(|free| free * 100 / 1000).sum::<i64>() / 10).max(50),
        whole => (50 - whole).max(33),
    }
}

fn gpu_clustering(node: &NodeView, pod: &PodRequest) -> i64 {
    let Some(class) = pod_class(pod.gpu) else { return 0 };
    let running: Vec<usize> =
        (0..node.classes.len()).filter(|&class| node.classes[class] > 0).collect();
    let base = 25 * (8_000 - free(node).iter().sum::<i64>()) / 8_000;
    if running == [class] {
        base + 75
    } else if running.contains(&class) {
        base + 50
    } else if running.is_empty() {
        base + 25
    } else {
        base
    }
}

/// Divisible before all else, then least left; costs only need to order nodes.
fn whole_card_first(node: &NodeView, pod: &PodRequest) -> (i64, DeviceMask) {
    let free = free(node);
    let left = free.iter().sum::<i64>() - i64::from(pod.gpu.total_milli());
    let (divides, devices) = match pod.gpu {
        GpuRequest::None => (false, DeviceMask::EMPTY),
        GpuRequest::Whole { count } => {
            let whole = free.iter().filter(|&&free| free == 1000).count();
            (whole % usize::from(count) == 0, published_devices(node, pod))
        }
        GpuRequest::Share { milli } => {
            let milli = i64::from(milli.get());
            let mut fitting: Vec<usize> =
                (0..free.len()).filter(|&device| free[device] >= milli).collect();
            fitting.sort_by_key(|&device| (free[device] % milli != 0, free[device]));
            (free[fitting[0]] % milli == 0, DeviceMask::only(fitting[0]))
        }
    };
    (left - (if divides { 100 } else { 50 } << 20), devices)
}

fn least_allocated(node: &NodeView, pod: &PodRequest) -> i64 {
    let part = |allocatable: i64, left: i64| {
        if allocatable == 0 { 0 } else { left.max(0) * 100 / allocatable }
    };
    let cpu = part(node.cpu_allocatable.0, node.shape.cpu_free.0 - pod.cpu.0);
    let memory = part(node.memory_allocatable.0, node.memory_free.0 - pod.memory.0);
    (cpu + memory) / 2
}
