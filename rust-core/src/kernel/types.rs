//! What goes into a kernel and comes out of it.

use crate::error::Error;
use crate::filter::{Reason, Unfit};
use crate::limits::MAX_MIX_KINDS;
use crate::mig::{MigInstances, MigRequest, MigStrategy};
use crate::request::{Kind, PodRequest};
use crate::score::{Placed, Strategy};
use crate::stranding::MixMode;
use crate::units::{DeviceMask, MemoryBytes, NodeRef, PodUid, Priority, Tier};

/// How a kernel decides.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// The scoring rule.
    pub strategy: Strategy,
    /// Seeds the order of equals.
    pub seed: u64,
    /// Where the workload mix comes from.
    pub mix: MixMode,
    /// Score pods without GPUs too: they take CPU beside idle GPUs. Otherwise every feasible node is as good.
    pub score_cpu_only: bool,
    /// Bound of memo tables and score columns, half for each, in bytes. One column is always kept (10 bytes a node).
    pub memo_bytes: usize,
    /// How card and start of MIG instances are chosen.
    pub mig_strategy: MigStrategy,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            strategy: Strategy::default(),
            seed: 0,
            mix: MixMode::Learned,
            score_cpu_only: true,
            memo_bytes: 256 << 20,
            mig_strategy: MigStrategy::default(),
        }
    }
}

/// The nodes a decision chooses from.
#[derive(Clone, Copy, Debug)]
pub enum Candidates<'a> {
    /// Every node.
    All,
    /// These nodes; one listed twice counts twice.
    Refs(&'a [NodeRef]),
}

/// Outcome of a decision.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decision {
    /// The best node and the devices to use, `None` when no candidate is feasible.
    pub best: Option<(NodeRef, DeviceMask)>,
    /// The MIG instances to use there.
    pub mig: MigInstances,
    /// Number of feasible candidates.
    pub feasible: u32,
    /// Score of the best, higher is better; `i64::MIN` without one.
    pub score: i64,
    /// Position of the best among [`Candidates::Refs`]; `None` without a best and for [`Candidates::All`].
    pub candidate: Option<u32>,
}

/// Score of one candidate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeScore {
    /// Higher is better; `i64::MIN` when the pod does not fit.
    pub score: i64,
    /// Devices the pod would use.
    pub devices: DeviceMask,
    /// Number of the [`Reason`] when the pod does not fit, else 0.
    pub reason: u16,
}

/// Why a node does not take a pod.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeReason {
    /// The node.
    pub node: NodeRef,
    /// The first thing that stands in the way, with figures.
    pub unfit: Unfit,
}

/// How fragmented the idle GPU is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Fragmentation {
    /// GPU of all devices.
    pub capacity_milli: u64,
    /// Idle GPU.
    pub idle_milli: u64,
    /// Fragment amount F of the published measure over the mix.
    pub fragment_milli: u64,
    /// Idle GPU expected to stay idle when nothing more of the mix fits (W).
    pub stranded_milli: u64,
    /// Memory slices of cards in MIG mode: all, and those in use.
    pub mig_slices: (u64, u64),
    /// Cards in MIG mode: GPU expected to stay idle when nothing more of the mix of profiles fits.
    pub mig_stranded_milli: u64,
}

/// Counters since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Decisions taken.
    pub decisions: u64,
    /// Look-ups in memo tables that found their entry.
    pub memo_hits: u64,
    /// Look-ups that had to compute it.
    pub memo_misses: u64,
    /// Bytes of memo tables now.
    pub memo_bytes: u64,
    /// Decisions that found a column of their request.
    pub column_hits: u64,
    /// Decisions that had to build one.
    pub column_misses: u64,
    /// Bytes of columns now.
    pub column_bytes: u64,
    /// Nodes scored anew in columns.
    pub nodes_scored: u64,
    /// Distinct pods counted for the mix.
    pub arrivals: u64,
    /// Kinds in the mix now.
    pub mix_kinds: u64,
    /// Times the mix was relearned.
    pub relearns: u64,
    /// Times the prices were refreshed.
    pub price_epochs: u64,
}

impl NodeScore {
    pub(super) fn of(placed: Result<Placed, Reason>) -> Self {
        match placed {
            Ok(placed) => Self { score: -placed.cost, devices: placed.devices, reason: 0 },
            Err(reason) => {
                Self { score: i64::MIN, devices: DeviceMask::EMPTY, reason: reason as u16 }
            }
        }
    }
}

pub(super) fn validate_mix(counts: &[(Kind, u64)]) -> Result<(), Error> {
    if counts.len() > MAX_MIX_KINDS {
        return Err(Error::limit(
            "number of mix kinds",
            counts.len() as i128,
            MAX_MIX_KINDS as i128,
        ));
    }
    if !counts.iter().any(|&(_, count)| count > 0) {
        return Err(Error::invalid(
            "mix",
            "without pods",
            "give kinds with counts above zero, or let the mix be learned",
        ));
    }
    for (position, (kind, _)) in counts.iter().enumerate() {
        let request = PodRequest {
            uid: PodUid(0),
            cpu: kind.cpu,
            memory: MemoryBytes(0),
            gpu: kind.gpu,
            models: kind.models,
            priority: Priority(0),
            tier: Tier::Batch,
            mig: MigRequest::NONE,
        };
        request.validate().map_err(|error| match error {
            Error::InvalidValue { what, value, fix } => {
                Error::InvalidValue { what: format!("mix[{position}]: {what}"), value, fix }
            }
            Error::LimitExceeded { what, value, limit } => {
                Error::LimitExceeded { what: format!("mix[{position}]: {what}"), value, limit }
            }
            other => other,
        })?;
    }
    Ok(())
}
