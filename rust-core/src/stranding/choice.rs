//! Which devices of a node a request may take.

use super::shape::clamp_cpu;
use crate::cluster::FreeShape;
use crate::request::{GpuRequest, Kind};
use crate::score::{Placed, first_whole};
use crate::units::DeviceMask;

/// Free amounts of the devices of a node.
pub(super) fn levels(free: &FreeShape) -> impl Iterator<Item = (usize, u16)> {
    free.levels().iter().map(|milli| milli.get()).enumerate()
}

/// Whether model, CPU and devices of the node will do.
pub(super) fn fits(free: &FreeShape, kind: &Kind) -> bool {
    let devices = match kind.gpu {
        GpuRequest::None => true,
        GpuRequest::Whole { count } => free.whole_free() >= u32::from(count),
        GpuRequest::Share { milli } => free.levels().iter().any(|&level| level >= milli),
    };
    devices
        && kind.models.contains(free.model)
        && clamp_cpu(kind.cpu.0) <= clamp_cpu(free.cpu_free.0)
}

/// The first device at exactly `level`.
pub(super) fn first_at(free: &FreeShape, level: u16) -> DeviceMask {
    levels(free)
        .find(|&(_, l)| l == level)
        .map_or(DeviceMask::EMPTY, |(index, _)| DeviceMask::only(index))
}

/// Placement before anything is known of the mix: whole-card-first (free % request == 0 before all else, then least
/// GPU left on the node), as the scoring strategy of that name.
pub(super) fn without_mix(free: &FreeShape, kind: &Kind) -> Option<Placed> {
    let idle = i64::from(free.idle_milli());
    let cost =
        |divides: bool| (i64::from(!divides) << 32) + idle - i64::from(kind.gpu.total_milli());
    match kind.gpu {
        GpuRequest::None => Some(Placed { cost: cost(false), devices: DeviceMask::EMPTY }),
        GpuRequest::Whole { count } => {
            let devices = first_whole(free, count)?;
            Some(Placed { cost: cost(free.whole_free().is_multiple_of(count.into())), devices })
        }
        GpuRequest::Share { milli } => levels(free)
            .filter(|&(_, level)| level >= milli.get())
            .min_by_key(|&(index, level)| (!level.is_multiple_of(milli.get()), level, index))
            .map(|(index, level)| Placed {
                cost: cost(level.is_multiple_of(milli.get())),
                devices: DeviceMask::only(index),
            }),
    }
}
