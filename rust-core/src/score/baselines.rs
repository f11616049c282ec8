//! The published baselines in exact integers (scheduling-quality C.7) and two rules of thumb. Cost = -score.

use super::devices::{divisible_share, published_choice};
use super::{Placed, Strategy};
use crate::cluster::{NodeView, pod_class};
use crate::request::{GpuRequest, PodRequest};
use crate::units::{DeviceMask, MilliGpu};

/// Largest CPU of a node in the published formulas, milli.
const MAX_NODE_CPU: i64 = 128_000;
/// Largest GPU of a node in the published formulas, milli.
const MAX_NODE_GPU: i64 = 8_000;

/// Cost of a feasible placement under a strategy that needs the node alone.
pub(crate) fn place(strategy: Strategy, node: &NodeView, request: &PodRequest) -> Option<Placed> {
    let devices = match (strategy, request.gpu) {
        (Strategy::WholeCardFirst, GpuRequest::Share { milli }) => {
            DeviceMask::only(divisible_share(&node.shape, milli)?)
        }
        _ => published_choice(&node.shape, request.gpu)?,
    };
    let score = match strategy {
        Strategy::BestFit => best_fit(node, request),
        Strategy::DotProduct => dot_product(node, request),
        Strategy::GpuPacking => gpu_packing(node, request, devices),
        Strategy::GpuClustering => gpu_clustering(node, request),
        Strategy::WholeCardFirst => whole_card_first(node, request, devices),
        Strategy::LeastAllocated => least_allocated(node, request),
        Strategy::Random | Strategy::ExpectedStranding | Strategy::Fgd => 0,
    };
    Some(Placed { cost: -score, devices })
}

/// Before the min-max normalisation, which changes neither the best nodes nor their order by more than merging equals:
/// only the raw maximum reaches 100.
fn best_fit(node: &NodeView, request: &PodRequest) -> i64 {
    let cpu_left = node.shape.cpu_free.0 - request.cpu.0;
    let gpu_left = i64::from(node.shape.idle_milli()) - i64::from(request.gpu.total_milli());
    let scale = MAX_NODE_CPU / MAX_NODE_GPU;
    (200 * MAX_NODE_CPU - 100 * cpu_left - 100 * scale * gpu_left) / (2 * MAX_NODE_CPU)
}

fn dot_product(node: &NodeView, request: &PodRequest) -> i64 {
    let scale = MAX_NODE_CPU / MAX_NODE_GPU;
    let cpu = i128::from(node.shape.cpu_free.0) * i128::from(request.cpu.0);
    let gpu = i64::from(node.shape.idle_milli()) * i64::from(request.gpu.total_milli());
    let dot = cpu + i128::from(scale * scale * gpu);
    let whole = i128::from(MAX_NODE_CPU * MAX_NODE_CPU);
    match i64::try_from(100 * whole - 50 * dot) {
        Ok(numerator) => numerator / (MAX_NODE_CPU * MAX_NODE_CPU),
        Err(_) => ((100 * whole - 50 * dot) / whole) as i64,
    }
}

fn gpu_packing(node: &NodeView, request: &PodRequest, devices: DeviceMask) -> i64 {
    if request.gpu.is_none() {
        return 0;
    }
    let whole_free = i64::from(node.shape.whole_free());
    if whole_free == i64::from(node.shape.gpu_count) {
        return (33 - whole_free).max(whole_free);
    }
    let used_whole =
        devices.iter().filter(|&device| node.shape.free[device] == MilliGpu::CARD).count();
    if used_whole > 0 {
        return (50 - used_whole as i64).max(33);
    }
    let percent: i64 =
        devices.iter().map(|device| i64::from(node.shape.free[device].get()) / 10).sum();
    (100 - percent / 10).max(50)
}

fn gpu_clustering(node: &NodeView, request: &PodRequest) -> i64 {
    let Some(class) = pod_class(request.gpu) else { return 0 };
    let base = 25 * (MAX_NODE_GPU - i64::from(node.shape.idle_milli())) / MAX_NODE_GPU;
    let classes = node.classes.iter().filter(|&&pods| pods > 0).count();
    base + match (node.classes[class] > 0, classes) {
        (true, 1) => 75,
        (true, _) => 50,
        (false, 0) => 25,
        (false, _) => 0,
    }
}

/// Whole cards: free cards in multiples of the request. A share: the card's free level in multiples of the share.
fn whole_card_first(node: &NodeView, request: &PodRequest, devices: DeviceMask) -> i64 {
    let idle = i64::from(node.shape.idle_milli());
    let left = idle - i64::from(request.gpu.total_milli());
    let divides = match request.gpu {
        GpuRequest::None => false,
        GpuRequest::Whole { count } => node.shape.whole_free().is_multiple_of(u32::from(count)),
        GpuRequest::Share { milli } => {
            devices.iter().all(|device| node.shape.free[device].get().is_multiple_of(milli.get()))
        }
    };
    let first = if divides { 100 } else { 50 };
    // Idle milli of a node stays below 2^20.
    (first << 20) - left
}

/// kube-scheduler's LeastAllocated over CPU and memory with weight 1 each.
fn least_allocated(node: &NodeView, request: &PodRequest) -> i64 {
    let part = |free: i64, requested: i64, allocatable: i64| {
        let left = i128::from(free) - i128::from(requested);
        if allocatable <= 0 || left <= 0 {
            return 0;
        }
        (left * 100 / i128::from(allocatable)) as i64
    };
    let cpu = part(node.shape.cpu_free.0, request.cpu.0, node.cpu_allocatable.0);
    let memory = part(node.memory_free.0, request.memory.0, node.memory_allocatable.0);
    (cpu + memory) / 2
}
