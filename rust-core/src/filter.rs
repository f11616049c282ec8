//! Whether a pod fits a node now, and if not, the first thing that stands in the way.

use crate::cluster::{FreeShape, NodeView};
use crate::request::{GpuRequest, PodRequest};
use crate::units::{MemoryBytes, MilliCpu};

/// Why a pod does not fit a node. The numbers are part of the ABI and never change their meaning; 0 means that it fits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u16)]
pub enum Reason {
    /// The node's GPU model is not among those the pod allows.
    ModelMismatch = 1,
    /// The node has no GPU.
    NoGpu = 2,
    /// Not enough free CPU.
    InsufficientCpu = 3,
    /// Not enough free memory.
    InsufficientMemory = 4,
    /// Enough idle GPU in sum, but not enough cards that are wholly free.
    InsufficientWholeCards = 5,
    /// Enough idle GPU in sum, but no single card has room for the share.
    NoCardFitsShare = 6,
    /// Not enough idle GPU in sum.
    InsufficientGpu = 7,
    /// The node takes no shares of a card.
    SharesNotOffered = 8,
    /// The node has fewer cards than the pod asks for, used or not.
    TooFewCards = 9,
    /// There is no node (vacant slot).
    NoNode = 10,
    /// No card of the node offers the MIG profile.
    NoMigProfile = 11,
    /// A card has enough free memory slices, but no place for the MIG profile: the free ones are not where it may start, or not
    /// next to each other.
    NoLegalMigStart = 12,
    /// No card has as many free memory slices as the MIG profile needs.
    InsufficientMigSlices = 13,
    /// The node has places for some of the MIG instances, but not for all.
    InsufficientMigInstances = 14,
}

impl Reason {
    /// All reasons, by number.
    pub const ALL: [Self; 14] = [
        Self::ModelMismatch,
        Self::NoGpu,
        Self::InsufficientCpu,
        Self::InsufficientMemory,
        Self::InsufficientWholeCards,
        Self::NoCardFitsShare,
        Self::InsufficientGpu,
        Self::SharesNotOffered,
        Self::TooFewCards,
        Self::NoNode,
        Self::NoMigProfile,
        Self::NoLegalMigStart,
        Self::InsufficientMigSlices,
        Self::InsufficientMigInstances,
    ];

    /// The reason word for machines.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ModelMismatch => "ModelMismatch",
            Self::NoGpu => "NoGpu",
            Self::InsufficientCpu => "InsufficientCpu",
            Self::InsufficientMemory => "InsufficientMemory",
            Self::InsufficientWholeCards => "InsufficientWholeCards",
            Self::NoCardFitsShare => "NoCardFitsShare",
            Self::InsufficientGpu => "InsufficientGpu",
            Self::SharesNotOffered => "SharesNotOffered",
            Self::TooFewCards => "TooFewCards",
            Self::NoNode => "NoNode",
            Self::NoMigProfile => "NoMigProfile",
            Self::NoLegalMigStart => "NoLegalMigStart",
            Self::InsufficientMigSlices => "InsufficientMigSlices",
            Self::InsufficientMigInstances => "InsufficientMigInstances",
        }
    }
}

/// A reason with its figures. The unit follows the reason: milli-CPU, bytes, cards (`NoGpu`, `TooFewCards`,
/// `InsufficientWholeCards`), milli-GPU, MIG instances (`NoMigProfile`, `InsufficientMigInstances`) or memory slices of one card
/// (`NoLegalMigStart`, `InsufficientMigSlices`); zero where there is nothing to count.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Unfit {
    /// What stands in the way.
    pub reason: Reason,
    /// How much the pod needs.
    pub need: i64,
    /// How much there is; may be negative for CPU and memory.
    pub have: i64,
    /// Free milli-GPU of the freest card for `NoCardFitsShare`, else 0.
    pub largest_free: i64,
}

/// Whether the pod fits.
///
/// # Errors
/// The first reason, in the order model, GPU, CPU, memory.
pub fn feasible(node: &NodeView, request: &PodRequest) -> Result<(), Reason> {
    check(node, request).map_err(|unfit| unfit.reason)
}

/// As [`feasible`], with figures.
///
/// # Errors
/// The first reason, in the order model, GPU, CPU, memory.
pub fn check(node: &NodeView, request: &PodRequest) -> Result<(), Unfit> {
    check_parts(&node.shape, node.shares_offered, node.memory_free, request)
}

/// As [`check`], on what it reads of a node.
pub(crate) fn check_parts(
    shape: &FreeShape,
    shares_offered: bool,
    memory_free: MemoryBytes,
    request: &PodRequest,
) -> Result<(), Unfit> {
    check_gpu(shape, shares_offered, request)?;
    if !cpu_fits(shape.cpu_free, request.cpu) {
        return unfit(Reason::InsufficientCpu, request.cpu.0, shape.cpu_free.0);
    }
    if !memory_fits(memory_free, request.memory) {
        return unfit(Reason::InsufficientMemory, request.memory.0, memory_free.0);
    }
    Ok(())
}

/// A request for nothing fits even an overcommitted node, as in kube-scheduler.
#[inline]
#[must_use]
pub const fn cpu_fits(free: MilliCpu, request: MilliCpu) -> bool {
    request.0 <= free.0 || request.0 == 0
}

/// A request for nothing fits even an overcommitted node, as in kube-scheduler.
#[inline]
#[must_use]
pub const fn memory_fits(free: MemoryBytes, request: MemoryBytes) -> bool {
    request.0 <= free.0 || request.0 == 0
}

fn check_gpu(shape: &FreeShape, shares_offered: bool, request: &PodRequest) -> Result<(), Unfit> {
    if !request.gpu.is_none() && shape.gpu_count == 0 {
        return unfit(Reason::NoGpu, i64::from(request.gpu.count()), 0);
    }
    if !request.models.contains(shape.model) {
        return unfit(Reason::ModelMismatch, 0, 0);
    }
    let idle = i64::from(shape.idle_milli());
    match request.gpu {
        GpuRequest::None => Ok(()),
        GpuRequest::Whole { count } => {
            let (need, whole) = (i64::from(count), i64::from(shape.whole_free()));
            if whole >= need {
                Ok(())
            } else if need > i64::from(shape.gpu_count) {
                unfit(Reason::TooFewCards, need, i64::from(shape.gpu_count))
            } else if idle >= need * 1_000 {
                unfit(Reason::InsufficientWholeCards, need, whole)
            } else {
                unfit(Reason::InsufficientGpu, need * 1_000, idle)
            }
        }
        GpuRequest::Share { milli } => {
            let need = i64::from(milli.get());
            let largest = shape.levels().iter().max().map_or(0, |free| i64::from(free.get()));
            if !shares_offered {
                unfit(Reason::SharesNotOffered, 0, 0)
            } else if largest >= need {
                Ok(())
            } else if idle >= need {
                Err(Unfit {
                    reason: Reason::NoCardFitsShare,
                    need,
                    have: idle,
                    largest_free: largest,
                })
            } else {
                unfit(Reason::InsufficientGpu, need, idle)
            }
        }
    }
}

const fn unfit(reason: Reason, need: i64, have: i64) -> Result<(), Unfit> {
    Err(Unfit { reason, need, have, largest_free: 0 })
}
