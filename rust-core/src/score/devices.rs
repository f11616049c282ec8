//! Choice of devices on a chosen node (scheduling-quality C.5).

use crate::cluster::FreeShape;
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

/// The devices the published baselines use: first whole cards, tightest card for a share, none without GPUs.
pub(crate) fn published_choice(shape: &FreeShape, gpu: GpuRequest) -> Option<DeviceMask> {
    match gpu {
        GpuRequest::None => Some(DeviceMask::EMPTY),
        GpuRequest::Whole { count } => first_whole(shape, count),
        GpuRequest::Share { milli } => tightest_share(shape, milli).map(DeviceMask::only),
    }
}
