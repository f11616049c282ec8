//! Free levels of a node's devices, derived from its capacity and its pods alone.
//!
//! Known devices are charged first. Then, in uid order, each card of unknown identity takes the fully free device of the
//! highest index, or, when none is fully free, the device with most left (highest index of equals). What exceeds a
//! device's capacity is counted as overcommitted and never makes a level negative.

use super::pod::PodRecord;
use crate::limits::{CARD_MILLI, MAX_GPUS_PER_NODE};
use crate::request::GpuRequest;
use crate::units::MilliGpu;

/// Milli-GPU per device; devices beyond the node's count are zero.
pub type DeviceLevels = [MilliGpu; MAX_GPUS_PER_NODE];

/// Number of pod classes by cards: 0 = shares, n = pods with n whole cards.
pub const POD_CLASSES: usize = MAX_GPUS_PER_NODE + 1;

/// Class of a GPU pod, `None` without GPUs.
#[must_use]
pub const fn pod_class(gpu: GpuRequest) -> Option<usize> {
    match gpu {
        GpuRequest::None => None,
        GpuRequest::Share { .. } => Some(0),
        GpuRequest::Whole { count } => Some(count as usize),
    }
}

/// What the pods of a node leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Derived {
    pub(crate) free: DeviceLevels,
    pub(crate) idle_milli: u32,
    pub(crate) overcommitted_milli: u32,
    pub(crate) classes: [u16; POD_CLASSES],
    /// CPU and memory held by reservations, on top of what the caller counted.
    pub(crate) reserved_cpu: i64,
    pub(crate) reserved_memory: i64,
}

/// Derives the levels from pods in uid order.
pub(crate) fn derive<'a>(
    capacity: &DeviceLevels,
    gpu_count: u8,
    pods: impl Iterator<Item = &'a PodRecord> + Clone,
) -> Derived {
    let mut held = [0u32; MAX_GPUS_PER_NODE];
    let mut unknown = false;
    let mut derived = Derived {
        free: [MilliGpu::ZERO; MAX_GPUS_PER_NODE],
        idle_milli: 0,
        overcommitted_milli: 0,
        classes: [0; POD_CLASSES],
        reserved_cpu: 0,
        reserved_memory: 0,
    };
    for pod in pods.clone() {
        for device in pod.devices.iter() {
            held[device] += u32::from(pod.gpu.milli().get());
        }
        unknown |= pod.unknown > 0;
        if let Some(class) = pod_class(pod.gpu) {
            derived.classes[class] += 1;
        }
        if pod.reservation {
            derived.reserved_cpu += pod.cpu.0;
            derived.reserved_memory += pod.memory.0;
        }
    }
    let count = usize::from(gpu_count).min(MAX_GPUS_PER_NODE);
    if unknown {
        for pod in pods {
            for _ in 0..pod.unknown {
                match unknown_device(&capacity[..count], &held[..count]) {
                    Some(device) => held[device] += u32::from(pod.gpu.milli().get()),
                    None => derived.overcommitted_milli += u32::from(pod.gpu.milli().get()),
                }
            }
        }
    }
    for device in 0..count {
        let has = u32::from(capacity[device].get());
        let left = has.saturating_sub(held[device]);
        derived.free[device] = MilliGpu::clamped(i64::from(left));
        derived.idle_milli += left;
        derived.overcommitted_milli += held[device].saturating_sub(has);
    }
    derived
}

fn unknown_device(capacity: &[MilliGpu], held: &[u32]) -> Option<usize> {
    let left = |device: usize| u32::from(capacity[device].get()).saturating_sub(held[device]);
    (0..capacity.len()).max_by_key(|&device| {
        let untouched = held[device] == 0 && capacity[device].get() == CARD_MILLI;
        (untouched, left(device), device)
    })
}
