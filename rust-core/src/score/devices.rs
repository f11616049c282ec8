//! Choice of devices on a chosen node (scheduling-quality C.5).

use crate::cluster::FreeShape;
use crate::hash::mix64;
use crate::request::GpuRequest;
use crate::units::{DeviceMask, MilliGpu};

/// The first `count` wholly free devices in index order.
#[must_use]
pub fn first_whole(shape: &FreeShape, count: u8) -> Option<DeviceMask> {
    let mut mask = DeviceMask::EMPTY;
    let mut left = count;
    for (device, &free) in shape.levels().iter().enumerate() {
        if left == 0 {
            break;
        }
        if free == MilliGpu::CARD {
            mask = mask.with(device);
            left -= 1;
        }
    }
    (left == 0).then_some(mask)
}

/// The device with the least free milli that has room for the share; the first index of equals.
#[must_use]
pub fn tightest_share(shape: &FreeShape, milli: MilliGpu) -> Option<usize> {
    let fits = shape.levels().iter().enumerate().filter(|&(_, &free)| free >= milli);
    fits.min_by_key(|&(device, &free)| (free, device)).map(|(device, _)| device)
}

/// A device whose free milli are a multiple of the share, the tightest of them; if there is none, the tightest.
pub(crate) fn divisible_share(shape: &FreeShape, milli: MilliGpu) -> Option<usize> {
    let fits = shape.levels().iter().enumerate().filter(|&(_, &free)| free >= milli);
    let order = |&(device, &free): &(usize, &MilliGpu)| {
        (!free.get().is_multiple_of(milli.get()), free, device)
    };
    fits.min_by_key(order).map(|(device, _)| device)
}

/// The devices the published baselines use: first whole cards, tightest card for a share, none without GPUs.
pub(crate) fn published_choice(shape: &FreeShape, gpu: GpuRequest) -> Option<DeviceMask> {
    match gpu {
        GpuRequest::None => Some(DeviceMask::EMPTY),
        GpuRequest::Whole { count } => first_whole(shape, count),
        GpuRequest::Share { milli } => tightest_share(shape, milli).map(DeviceMask::only),
    }
}

/// Devices drawn by `draw` among those that fit: any card for a share, any whole cards.
pub(crate) fn any_devices(shape: &FreeShape, gpu: GpuRequest, draw: u64) -> Option<DeviceMask> {
    let mut fitting = DeviceMask::EMPTY;
    for (device, &free) in shape.levels().iter().enumerate() {
        if free >= gpu.milli() {
            fitting = fitting.with(device);
        }
    }
    if fitting.count() < u32::from(gpu.count()) {
        return None;
    }
    let mut chosen = DeviceMask::EMPTY;
    let mut draw = draw;
    for _ in 0..gpu.count() {
        draw = mix64(draw);
        let nth = (draw % u64::from(fitting.count())) as usize;
        let device = fitting.iter().nth(nth)?;
        fitting.0 &= !DeviceMask::only(device).0;
        chosen = chosen.with(device);
    }
    Some(chosen)
}
