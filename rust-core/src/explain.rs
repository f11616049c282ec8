//! Why a pod fits nowhere, in the words people know from kube-scheduler, and the largest hole there is for it.

use std::fmt;

use crate::cluster::Cluster;
use crate::filter::{Reason, check};
use crate::kernel::check_mig;
use crate::request::{GpuRequest, PodRequest};
use crate::units::NodeKey;

/// The best a node with an allowed model has to offer for the GPU part of a request, CPU and memory aside.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Hole {
    /// Wholly free cards of the node, for whole-card requests; free milli of its freest card, for shares.
    pub size: u32,
    /// The node; of equals the one with the smallest key.
    pub node: NodeKey,
}

/// A pod's chances on every node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Explanation {
    /// What was asked.
    pub gpu: GpuRequest,
    /// Number of nodes.
    pub nodes: u32,
    /// Nodes the pod fits.
    pub feasible: u32,
    /// Nodes per reason: most frequent first, then by number of the reason.
    pub counts: Vec<(Reason, u32)>,
    /// `None` without GPUs in the request, or without nodes of an allowed model.
    pub largest_hole: Option<Hole>,
}

/// Looks at every node.
#[must_use]
pub fn explain(cluster: &Cluster, pod: &PodRequest) -> Explanation {
    let mut counts = [0u32; Reason::ALL.len()];
    let mut explanation =
        Explanation { gpu: pod.gpu, nodes: 0, feasible: 0, counts: Vec::new(), largest_hole: None };
    for node in cluster.nodes() {
        let view = cluster.view_for(node.index as usize, pod.uid, pod.priority);
        explanation.nodes += 1;
        match check(&view, pod).and_then(|()| check_mig(cluster, node.index as usize, pod)) {
            Ok(()) => explanation.feasible += 1,
            Err(unfit) => counts[unfit.reason as usize - 1] += 1,
        }
        if pod.gpu.is_none() || !pod.models.contains(view.shape.model) {
            continue;
        }
        let size = match pod.gpu {
            GpuRequest::Whole { .. } => view.shape.whole_free(),
            _ if !view.shares_offered => 0,
            _ => view.shape.levels().iter().max().map_or(0, |free| u32::from(free.get())),
        };
        let better = explanation
            .largest_hole
            .is_none_or(|hole| size > hole.size || (size == hole.size && view.key < hole.node));
        if better {
            explanation.largest_hole = Some(Hole { size, node: view.key });
        }
    }
    explanation.counts =
        Reason::ALL.into_iter().zip(counts).filter(|&(_, count)| count > 0).collect();
    explanation.counts.sort_by_key(|&(reason, count)| (std::cmp::Reverse(count), reason));
    explanation
}

/// The words after a count: `3 Insufficient cpu`.
#[must_use]
pub const fn phrase(reason: Reason) -> &'static str {
    match reason {
        Reason::ModelMismatch => "node(s) didn't have an allowed GPU model",
        Reason::NoGpu => "node(s) didn't have GPUs",
        Reason::InsufficientCpu => "Insufficient cpu",
        Reason::InsufficientMemory => "Insufficient memory",
        Reason::InsufficientWholeCards => {
            "node(s) had enough idle GPU but too few whole cards free"
        }
        Reason::NoCardFitsShare => {
            "node(s) had enough idle GPU but no card with room for the share"
        }
        Reason::InsufficientGpu => "Insufficient GPU",
        Reason::SharesNotOffered => "node(s) didn't offer shares of a GPU",
        Reason::TooFewCards => "node(s) had fewer GPUs than requested",
        Reason::NoNode => "node(s) were gone",
        Reason::NoMigProfile => "node(s) didn't offer the MIG profile",
        Reason::NoLegalMigStart => {
            "node(s) had enough free MIG slices on a card but no legal start for the profile"
        }
        Reason::InsufficientMigSlices => "node(s) had too few free MIG slices on every card",
        Reason::InsufficientMigInstances => "node(s) had places for some of the MIG instances only",
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{} nodes are available", self.feasible, self.nodes)?;
        for (position, &(reason, count)) in self.counts.iter().enumerate() {
            let before = if position == 0 { ": " } else { ", " };
            write!(f, "{before}{count} {}", phrase(reason))?;
        }
        f.write_str(".")?;
        match (self.gpu, self.largest_hole) {
            (GpuRequest::Whole { count }, Some(hole)) if self.feasible == 0 => write!(
                f,
                " Largest hole: {} whole cards on one node, {count} requested.",
                hole.size
            ),
            (GpuRequest::Share { milli }, Some(hole)) if self.feasible == 0 => write!(
                f,
                " Largest hole: {} milli on one card, {} requested.",
                hole.size,
                milli.get()
            ),
            _ => Ok(()),
        }
    }
}
