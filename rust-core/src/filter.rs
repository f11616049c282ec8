//! Whether a pod fits a node now, and if not, the first thing that stands in the way.

use crate::cluster::NodeView;
use crate::request::{GpuRequest, PodRequest};

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
}

/// A reason with its figures: in milli-GPU for shares and sums, in cards for whole cards, in milli-CPU or bytes else;
/// both zero where there is nothing to count.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Unfit {
    /// What stands in the way.
    pub reason: Reason,
    /// How much the pod needs.
    pub need: i64,
    /// How much there is.
    pub have: i64,
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
    check_gpu(node, request)?;
    if request.cpu > node.shape.cpu_free && request.cpu.0 > 0 {
        return unfit(Reason::InsufficientCpu, request.cpu.0, node.shape.cpu_free.0);
    }
    check_memory(node, request)
}

/// The memory part alone: everything a [`FreeShape`](crate::cluster::FreeShape) does not hold.
#[inline]
fn check_memory(node: &NodeView, request: &PodRequest) -> Result<(), Unfit> {
    if request.memory > node.memory_free && request.memory.0 > 0 {
        return unfit(Reason::InsufficientMemory, request.memory.0, node.memory_free.0);
    }
    Ok(())
}

fn check_gpu(node: &NodeView, request: &PodRequest) -> Result<(), Unfit> {
    let shape = &node.shape;
    if !request.gpu.is_none() && shape.gpu_count == 0 {
        return unfit(Reason::NoGpu, 0, 0);
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
            if !node.shares_offered {
                unfit(Reason::SharesNotOffered, 0, 0)
            } else if largest >= need {
                Ok(())
            } else if idle >= need {
                unfit(Reason::NoCardFitsShare, need, largest)
            } else {
                unfit(Reason::InsufficientGpu, need, idle)
            }
        }
    }
}

const fn unfit(reason: Reason, need: i64, have: i64) -> Result<(), Unfit> {
    Err(Unfit { reason, need, have })
}
