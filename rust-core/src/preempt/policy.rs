//! What a plan may do: the limits that protect people, and how hard to search.

use crate::units::{Priority, Tier};

/// How plans are made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Policy {
    /// Never exceed a disruption budget; otherwise it is only avoided before all else.
    pub hard_budgets: bool,
    /// A job evicted this often without having saved counts as tier 1 for victim selection; 0 = never.
    pub guarantee_after: u32,
    /// A pod that would lose this much, and never saved, holds the guarantee before its first eviction too
    /// (milli-GPU x seconds); `i64::MAX` = none does.
    pub guarantee_lost_milli_gpu_seconds: i64,
    /// Milli-GPU per tenant that the guarantee may protect at one time, for pods whose tenant is not listed.
    pub guarantee_milli: u64,
    /// Evicted GPUs per 1000 requested GPUs (a share counts as one GPU); `None` = no limit. Does not bind for pods
    /// without GPUs.
    pub ratio_permille: Option<u32>,
    /// Restart time of pods without facts.
    pub restart_seconds: u32,
    /// Grace of pods without facts.
    pub grace_seconds: u32,
    /// Victim sets a plan may look at before it settles for the best so far.
    pub expansions: u64,
    /// Nodes that are worked out to say why they lost.
    pub runner_ups: usize,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            hard_budgets: false,
            guarantee_after: 1,
            guarantee_lost_milli_gpu_seconds: i64::MAX,
            guarantee_milli: u64::MAX,
            ratio_permille: Some(2_000),
            restart_seconds: 0,
            grace_seconds: 30,
            expansions: 100_000,
            runner_ups: 4,
        }
    }
}

impl Policy {
    /// Milli-GPU that may be evicted for a request of `requested_milli` over `members` pods with GPUs.
    pub(super) fn eviction_limit(&self, requested_milli: u64) -> u64 {
        match self.ratio_permille {
            Some(permille) if requested_milli > 0 => {
                requested_milli.saturating_mul(u64::from(permille)) / 1_000
            }
            _ => u64::MAX,
        }
    }
}

/// Whether a pod of tier `victim` may be evicted for one of tier `preemptor`: inference never, training for inference,
/// batch for both.
#[must_use]
pub const fn tier_yields(victim: Tier, preemptor: Tier) -> bool {
    !matches!(victim, Tier::Inference) && victim as u8 > preemptor as u8
}

/// Whether tier and priority let a pod be evicted for another.
#[must_use]
pub fn yields(victim: (Tier, Priority), preemptor: (Tier, Priority)) -> bool {
    tier_yields(victim.0, preemptor.0) && victim.1 < preemptor.1
}

/// Seconds between two plans of one preemptor, the first time.
pub const PLAN_INTERVAL_SECONDS: i64 = 600;
/// Longest wait between two plans of one preemptor.
pub const MAX_PLAN_INTERVAL_SECONDS: i64 = 4_800;

/// The plans a preemptor had so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PlanHistory {
    /// Plans carried out.
    pub plans: u32,
    /// When the last one was, Unix seconds.
    pub last_seconds: i64,
}

impl PlanHistory {
    /// One plan in ten minutes; each further plan doubles the wait, up to 80 minutes.
    ///
    /// # Errors
    /// The time from which the next plan is allowed.
    pub fn allows(&self, now_seconds: i64) -> Result<(), i64> {
        if self.plans == 0 {
            return Ok(());
        }
        let doublings = (self.plans - 1).min(3);
        let wait = (PLAN_INTERVAL_SECONDS << doublings).min(MAX_PLAN_INTERVAL_SECONDS);
        let next = self.last_seconds.saturating_add(wait);
        if now_seconds >= next { Ok(()) } else { Err(next) }
    }

    /// The history after one more plan.
    #[must_use]
    pub const fn after_plan(self, now_seconds: i64) -> Self {
        Self { plans: self.plans.saturating_add(1), last_seconds: now_seconds }
    }
}
