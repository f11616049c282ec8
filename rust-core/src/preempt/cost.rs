//! What a plan costs, and what a pod loses when it is evicted.

use std::fmt;

use super::tables::PodFacts;
use crate::cluster::PodRecord;

/// Times are clamped to about 68 years, so that sums over all pods of a cluster stay inside `i64`.
const MAX_SECONDS: i64 = i32::MAX as i64;

/// Cost of a plan, compared field by field in this order; node order decides between equals.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Cost {
    /// Evictions beyond what disruption budgets allow, summed over the budgets.
    pub budget_violations: u32,
    /// Units of tier 1, those under the progress guarantee included.
    pub tier1_units: u32,
    /// Lost work: milli-GPU x seconds.
    pub lost_milli_gpu_seconds: i64,
    /// Units: pods, surplus members, gangs. A gang taken whole counts each surplus member and its core.
    pub units: u32,
    /// Change of the expected stranded milli-GPU on the plan's nodes, once the preemptor is placed.
    pub stranded_milli: i64,
}

impl Cost {
    /// The part that victims alone decide.
    #[must_use]
    pub const fn of_victims(self) -> Self {
        Self { stranded_milli: 0, ..self }
    }
}

/// The first thing in which one plan is worse than another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Criterion {
    /// More evictions beyond disruption budgets.
    BudgetViolations = 1,
    /// More tier-1 units.
    Tier1Units = 2,
    /// More lost work.
    LostWork = 3,
    /// More units.
    Units = 4,
    /// More GPU stranded afterwards.
    Stranded = 5,
    /// Equal in all; later in node order.
    NodeOrder = 6,
}

impl Criterion {
    /// Why `loser` is not better than `winner`.
    #[must_use]
    pub fn between(loser: Cost, winner: Cost) -> Self {
        if loser.budget_violations != winner.budget_violations {
            Self::BudgetViolations
        } else if loser.tier1_units != winner.tier1_units {
            Self::Tier1Units
        } else if loser.lost_milli_gpu_seconds != winner.lost_milli_gpu_seconds {
            Self::LostWork
        } else if loser.units != winner.units {
            Self::Units
        } else if loser.stranded_milli != winner.stranded_milli {
            Self::Stranded
        } else {
            Self::NodeOrder
        }
    }

    pub(super) fn sentence(self, loser: Cost, winner: Cost) -> String {
        let hours = |cost: Cost| cost.lost_milli_gpu_seconds as f64 / 3.6e6;
        match self {
            Self::BudgetViolations => format!(
                "would break disruption budgets {} times instead of {}",
                loser.budget_violations, winner.budget_violations
            ),
            Self::Tier1Units => format!(
                "would evict {} training units instead of {}",
                loser.tier1_units, winner.tier1_units
            ),
            Self::LostWork => format!(
                "would lose {:.3} GPU-hours of work instead of {:.3}",
                hours(loser),
                hours(winner)
            ),
            Self::Units => format!("would evict {} units instead of {}", loser.units, winner.units),
            Self::Stranded => format!(
                "would strand {} milli-GPU more",
                loser.stranded_milli - winner.stranded_milli
            ),
            Self::NodeOrder => "as good, but later in node order".to_owned(),
        }
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.3} GPU-hours lost, {} units ({} of tier 1), {} budget violations",
            self.lost_milli_gpu_seconds as f64 / 3.6e6,
            self.units,
            self.tier1_units,
            self.budget_violations
        )
    }
}

/// A published checkpoint time that cannot be true.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CheckpointFault {
    /// Later than now.
    InFuture,
    /// Before the pod started.
    BeforeStart,
}

/// The checkpoint of a record, if it can be true.
pub(super) fn checkpoint(
    record: &PodRecord,
    now_seconds: i64,
) -> Result<Option<i64>, CheckpointFault> {
    match record.checkpoint_seconds {
        Some(saved) if saved > now_seconds => Err(CheckpointFault::InFuture),
        Some(saved) if saved < record.start_seconds => Err(CheckpointFault::BeforeStart),
        other => Ok(other),
    }
}

/// Lost work of one pod in milli-GPU-seconds: GPUs x (time since it was last safe + restart). What is saved within the
/// grace window costs the time of saving at most.
///
/// `saved_seconds` is the checkpoint the pod would resume from; of a gang the newest of any member, as gangs save as one.
#[must_use]
pub fn lost_milli_gpu_seconds(
    record: &PodRecord,
    saved_seconds: Option<i64>,
    facts: &PodFacts,
    now_seconds: i64,
) -> i64 {
    let safe = saved_seconds.unwrap_or(i64::MIN).max(record.start_seconds);
    let mut unsafe_for = now_seconds.saturating_sub(safe).clamp(0, MAX_SECONDS);
    if let Some(save) = facts.save_seconds
        && save <= facts.grace_seconds
    {
        unsafe_for = unsafe_for.min(i64::from(save));
    }
    let held = record.gpu.total_milli() + record.mig.milli();
    i64::from(held) * (unsafe_for + i64::from(facts.restart_seconds))
}
