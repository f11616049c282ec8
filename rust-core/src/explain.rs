//! Why a pod fits nowhere, in the words people know from kube-scheduler, and the largest hole there is for it.

use std::fmt;

use crate::cluster::{Cluster, NodeView};
use crate::filter::{Reason, check};
use crate::kernel::check_mig;
use crate::request::{GpuRequest, PodRequest};
use crate::units::{NodeKey, NodeRef};

/// The best a node with an allowed model has to offer for the GPU part of a request, CPU and memory aside.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Hole {
    /// Wholly free cards of the node, for whole-card requests; free milli of its freest card, for shares.
    pub size: u32,
    /// The node; of equals the one with the smallest key.
    pub node: NodeKey,
    /// The same node.
    pub at: NodeRef,
}

/// GPU for a request, CPU and memory aside: on nodes that have cards of an allowed model and, for a share, offer shares.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct FreeGpu {
    /// Such nodes, whatever is free there.
    pub nodes: u32,
    /// Those with anything free: a whole card for whole-card requests, any part of a card for shares.
    pub nodes_with_any: u32,
    /// Wholly free cards.
    pub cards: u32,
    /// Free milli-GPU, wholly free cards included.
    pub milli: u64,
}

/// A pod's chances on the nodes that were looked at.
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
    /// Zero without GPUs in the request.
    pub free: FreeGpu,
    /// `None` without GPUs in the request, or without a node in `free`.
    pub largest_hole: Option<Hole>,
}

/// Looks at each of the nodes, which must exist.
#[must_use]
pub fn explain(
    cluster: &Cluster,
    pod: &PodRequest,
    nodes: impl Iterator<Item = NodeRef>,
) -> Explanation {
    let mut counts = [0u32; Reason::ALL.len()];
    let mut explanation = Explanation {
        gpu: pod.gpu,
        nodes: 0,
        feasible: 0,
        counts: Vec::new(),
        free: FreeGpu::default(),
        largest_hole: None,
    };
    for node in nodes {
        let view = cluster.view_for(node.index as usize, pod.uid, pod.priority);
        explanation.nodes += 1;
        match check(&view, pod).and_then(|()| check_mig(cluster, node.index as usize, pod)) {
            Ok(()) => explanation.feasible += 1,
            Err(unfit) => counts[unfit.reason as usize - 1] += 1,
        }
        explanation.count_gpu(&view, pod, node);
    }
    explanation.counts =
        Reason::ALL.into_iter().zip(counts).filter(|&(_, count)| count > 0).collect();
    explanation.counts.sort_by_key(|&(reason, count)| (std::cmp::Reverse(count), reason));
    explanation
}

impl Explanation {
    fn count_gpu(&mut self, view: &NodeView, pod: &PodRequest, at: NodeRef) {
        let shape = &view.shape;
        let size = match pod.gpu {
            _ if shape.gpu_count == 0 || !pod.models.contains(shape.model) => return,
            GpuRequest::None => return,
            GpuRequest::Whole { .. } => shape.whole_free(),
            GpuRequest::Share { .. } if !view.shares_offered => return,
            GpuRequest::Share { .. } => {
                shape.levels().iter().max().map_or(0, |free| u32::from(free.get()))
            }
        };
        self.free.nodes += 1;
        self.free.nodes_with_any += u32::from(size > 0);
        self.free.cards += shape.whole_free();
        self.free.milli += u64::from(shape.idle_milli());
        let better = self
            .largest_hole
            .is_none_or(|hole| size > hole.size || (size == hole.size && view.key < hole.node));
        if better {
            self.largest_hole = Some(Hole { size, node: view.key, at });
        }
    }

    /// What is free for the pod: `8 GPUs free on 5 nodes, largest hole 3`. Nothing for a pod without GPUs.
    #[must_use]
    pub fn room(&self) -> impl fmt::Display {
        Room { gpu: self.gpu, nodes: self.nodes, free: self.free, largest_hole: self.largest_hole }
    }
}

struct Room {
    gpu: GpuRequest,
    nodes: u32,
    free: FreeGpu,
    largest_hole: Option<Hole>,
}

impl fmt::Display for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hole = match (self.gpu, self.largest_hole) {
            (GpuRequest::None, _) => return Ok(()),
            (GpuRequest::Whole { .. }, None) => {
                return write!(f, "no GPU of an allowed model on {}", plural(self.nodes, "node"));
            }
            (GpuRequest::Share { .. }, None) => {
                return write!(
                    f,
                    "no GPU of an allowed model that can be shared on {}",
                    plural(self.nodes, "node")
                );
            }
            (_, Some(hole)) => hole.size,
        };
        let (all, some) =
            (plural(self.free.nodes, "node"), plural(self.free.nodes_with_any, "node"));
        match self.gpu {
            GpuRequest::Share { .. } if hole == 0 => write!(f, "0 GPUs free on {all}"),
            GpuRequest::Share { .. } => {
                let (free, noun) = (decimal(self.free.milli, 1000), noun(self.free.milli == 1000));
                let hole = decimal(hole.into(), 10);
                write!(f, "{free} {noun} free on {some}, largest hole {hole} % of a card")
            }
            _ => {
                if hole == 0 {
                    write!(f, "0 whole GPUs free on {all}")?;
                } else {
                    let noun = noun(self.free.cards == 1);
                    write!(f, "{} {noun} free on {some}, largest hole {hole}", self.free.cards)?;
                }
                let parts = self.free.milli - u64::from(self.free.cards) * 1000;
                if parts > 0 {
                    write!(f, ", {} more in parts of cards", decimal(parts, 1000))?;
                }
                Ok(())
            }
        }
    }
}

const fn noun(one: bool) -> &'static str {
    if one { "GPU" } else { "GPUs" }
}

fn plural(count: u32, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// `value` over `unit`, which is a power of ten, without trailing zeros.
fn decimal(value: u64, unit: u64) -> String {
    let digits = unit.ilog10() as usize;
    let text = format!("{}.{:0digits$}", value / unit, value % unit);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
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
        if self.feasible == 0 && !self.gpu.is_none() {
            write!(f, " {}.", self.room())?;
        }
        Ok(())
    }
}
