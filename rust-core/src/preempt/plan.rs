//! The outcome: who goes, who comes where, and why nothing else was better.

use std::fmt;

use super::cost::{CheckpointFault, Cost, Criterion};
use crate::filter::{Reason, Unfit};
use crate::units::{DeviceMask, NodeRef, PodUid};

/// A pending pod and its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placement {
    /// Index in the request's members.
    pub member: u32,
    /// Node.
    pub node: NodeRef,
    /// Devices, free once the victims are gone.
    pub devices: DeviceMask,
}

/// As what a victim goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum UnitKind {
    /// A pod of no gang.
    Pod = 1,
    /// A surplus member of a gang.
    Surplus = 2,
    /// A member of a gang that goes whole.
    Gang = 3,
    /// It is being deleted already: wait for it, do not delete it again.
    Terminating = 4,
}

/// A pod that must be gone before the plan's pods start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Victim {
    /// The pod.
    pub uid: PodUid,
    /// Its node.
    pub node: NodeRef,
    /// As what it goes.
    pub kind: UnitKind,
    /// Index of its gang, or [`NONE`](super::NONE).
    pub gang: u32,
    /// Counted as tier 1.
    pub tier1: bool,
    /// GPU it holds.
    pub milli: u32,
    /// Lost work: milli-GPU x seconds.
    pub lost_milli_gpu_seconds: i64,
}

/// Another node and why it was not chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunnerUp {
    /// The node.
    pub node: NodeRef,
    /// Cost of the best plan on it.
    pub cost: Cost,
    /// The first thing in which it is worse.
    pub lost_by: Criterion,
}

/// A checkpoint time that was ignored.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Warning {
    /// The pod that published it.
    pub uid: PodUid,
    /// What is wrong with it.
    pub fault: CheckpointFault,
}

/// Victims and places.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// One per member, in their order.
    pub placements: Vec<Placement>,
    /// In node order and uid order; the members of a unit stand wherever they run.
    pub victims: Vec<Victim>,
    /// What it costs.
    pub cost: Cost,
    /// GPU evicted, without what was terminating.
    pub evicted_milli: u64,
    /// Nothing better exists; false when the search ended early, or for several members.
    pub optimal: bool,
    /// Victim sets looked at.
    pub expansions: u64,
    /// The next best nodes, best first.
    pub runner_ups: Vec<RunnerUp>,
    /// Nodes no eviction could make room on.
    pub blocked: Vec<Blocked>,
    /// Pods that hold the progress guarantee now.
    pub guaranteed_pods: u32,
    /// Checkpoint times that were ignored.
    pub warnings: Vec<Warning>,
}

impl Plan {
    /// Pods to delete: the victims that are not terminating already.
    pub fn evictions(&self) -> impl Iterator<Item = &Victim> {
        self.victims.iter().filter(|victim| victim.kind != UnitKind::Terminating)
    }
}

/// Nodes that stay closed for the same reason even if everything that may go went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Blocked {
    /// What stands in the way.
    pub reason: Reason,
    /// Number of nodes.
    pub nodes: u32,
    /// What is needed, in the reason's unit.
    pub need: i64,
    /// Most that any of the nodes could offer.
    pub most: i64,
    /// Least and most milli-GPU on these nodes that may not be evicted.
    pub fixed_milli: (u64, u64),
}

/// Why there is no plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NoPlan {
    /// Closed nodes by reason, most nodes first.
    pub blocked: Vec<Blocked>,
    /// Without the ratio limit this would have been evicted and requested, in milli-GPU.
    pub over_ratio: Option<(u64, u64)>,
    /// Without hard disruption budgets they would have been exceeded this often.
    pub over_budget: Option<u32>,
    /// The group as a whole found no room although single members did.
    pub placed_members: u32,
    /// Checkpoint times that were ignored.
    pub warnings: Vec<Warning>,
}

impl Blocked {
    pub(super) fn add(list: &mut Vec<Self>, unfit: Unfit, fixed_milli: u64) {
        let same = |entry: &&mut Self| entry.reason == unfit.reason;
        match list.iter_mut().find(same) {
            Some(entry) => {
                entry.nodes += 1;
                entry.need = entry.need.max(unfit.need);
                entry.most = entry.most.max(unfit.have);
                entry.fixed_milli.0 = entry.fixed_milli.0.min(fixed_milli);
                entry.fixed_milli.1 = entry.fixed_milli.1.max(fixed_milli);
            }
            None => list.push(Self {
                reason: unfit.reason,
                nodes: 1,
                need: unfit.need,
                most: unfit.have,
                fixed_milli: (fixed_milli, fixed_milli),
            }),
        }
    }
}

fn gpus(milli: u64) -> String {
    if milli.is_multiple_of(1_000) {
        (milli / 1_000).to_string()
    } else {
        format!("{:.3}", milli as f64 / 1_000.0)
    }
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { nodes, need, most, .. } = *self;
        let on = if nodes == 1 { "1 node".to_owned() } else { format!("{nodes} nodes") };
        let (least, largest) = (gpus(self.fixed_milli.0), gpus(self.fixed_milli.1));
        let fixed = if least == largest { least } else { format!("{least} to {largest}") };
        match self.reason {
            Reason::InsufficientWholeCards | Reason::InsufficientGpu => {
                write!(f, "no node can be emptied: {fixed} non-preemptible GPUs on each ({on})")
            }
            Reason::NoCardFitsShare => {
                write!(f, "no card can be emptied: {fixed} non-preemptible GPUs on each ({on})")
            }
            Reason::InsufficientCpu => {
                write!(f, "at most {most} of {need} milli-CPU can be freed ({on})")
            }
            Reason::InsufficientMemory => {
                write!(f, "at most {most} of {need} bytes of memory can be freed ({on})")
            }
            Reason::TooFewCards => write!(f, "{most} cards on the node, {need} asked for ({on})"),
            Reason::ModelMismatch => write!(f, "another GPU model ({on})"),
            Reason::NoGpu => write!(f, "no GPU ({on})"),
            Reason::SharesNotOffered => write!(f, "shares of a card are not offered ({on})"),
            Reason::NoNode => write!(f, "no such node ({on})"),
            Reason::NoMigProfile
            | Reason::NoLegalMigStart
            | Reason::InsufficientMigSlices
            | Reason::InsufficientMigInstances => {
                write!(f, "MIG instances are not freed by preemption ({on})")
            }
        }
    }
}

impl fmt::Display for NoPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("preemption would not help")?;
        let mut separator = ": ";
        if let Some((evicted, requested)) = self.over_ratio {
            write!(
                f,
                "{separator}it would evict {} GPUs for {} asked, above the ratio limit",
                gpus(evicted),
                gpus(requested)
            )?;
            separator = "; ";
        }
        if let Some(violations) = self.over_budget {
            write!(
                f,
                "{separator}it would exceed disruption budgets by {violations} evictions, and they are hard"
            )?;
            separator = "; ";
        }
        if self.placed_members > 0 {
            write!(f, "{separator}room could be made for {} members only", self.placed_members)?;
            separator = "; ";
        }
        for blocked in &self.blocked {
            write!(f, "{separator}{blocked}")?;
            separator = "; ";
        }
        Ok(())
    }
}

impl fmt::Display for RunnerUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.node, self.cost)
    }
}

impl RunnerUp {
    /// Why this node was not chosen, in words.
    #[must_use]
    pub fn sentence(&self, winner: Cost) -> String {
        self.lost_by.sentence(self.cost, winner)
    }
}

/// What planning came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Room can be made.
    Plan(Box<Plan>),
    /// It cannot, and why.
    NoPlan(Box<NoPlan>),
}

impl Outcome {
    /// The plan, if there is one.
    #[must_use]
    pub fn plan(&self) -> Option<&Plan> {
        match self {
            Self::Plan(plan) => Some(plan),
            Self::NoPlan(_) => None,
        }
    }
}
