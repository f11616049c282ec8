//! What planning must know of running pods beyond their records: gangs, disruption budgets, tenants, past evictions.

use std::collections::HashMap;

use crate::error::Error;
use crate::hash::MixBuild;
use crate::units::PodUid;

/// No gang, no tenant.
pub const NONE: u32 = u32::MAX;
/// Pods the side tables may list.
pub const MAX_POD_FACTS: usize = 1 << 21;
/// Longest declared save, restart or grace time: 30 days.
pub const MAX_DECLARED_SECONDS: u32 = 30 * 86_400;

/// One running pod. A pod that is not listed is alone, without budgets, never evicted, and takes the policy's times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PodFacts {
    /// The pod, listed once.
    pub uid: PodUid,
    /// Index in [`SideTables::gangs`], or [`NONE`].
    pub gang: u32,
    /// Index in [`SideTables::tenants`], or [`NONE`].
    pub tenant: u32,
    /// First of the pod's entries in [`SideTables::budget_refs`].
    pub first_budget: u32,
    /// Number of its entries there.
    pub budget_count: u32,
    /// Evictions of this job since it last saved; a save sets it back to 0.
    pub unsaved_evictions: u32,
    /// Time the job needs to save when told to stop; `None` = it never saves on a signal.
    pub save_seconds: Option<u32>,
    /// Time from its next start until it makes progress again.
    pub restart_seconds: u32,
    /// Time it is given between the signal and the kill.
    pub grace_seconds: u32,
    /// May be evicted although another scheduler placed it.
    pub consent: bool,
}

impl PodFacts {
    /// A pod of no gang, tenant or budget that saves nothing and restarts at once.
    #[must_use]
    pub const fn new(uid: PodUid) -> Self {
        Self {
            uid,
            gang: NONE,
            tenant: NONE,
            first_budget: 0,
            budget_count: 0,
            unsaved_evictions: 0,
            save_seconds: None,
            restart_seconds: 0,
            grace_seconds: 30,
            consent: false,
        }
    }
}

/// What an eviction may take of a gang.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Disruption {
    /// All members or none.
    All,
    /// Single members while the minimum stays; beyond that, all.
    Single,
}

/// A gang of running pods. Its members are the pods that name it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gang {
    /// Whether single members may go.
    pub disruption: Disruption,
    /// Members it cannot run without.
    pub min_members: u32,
}

/// A PodDisruptionBudget as its status reads now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DisruptionBudget {
    /// Pods that may still be evicted (`status.disruptionsAllowed`); terminating pods are already out of it.
    pub allowed: u32,
}

/// A tenant and how much of its unsaved work the progress guarantee may protect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tenant {
    /// Milli-GPU of running jobs that may hold the guarantee at one time.
    pub guarantee_milli: u64,
}

/// The side tables as flat slices.
#[derive(Clone, Copy, Debug, Default)]
pub struct SideTables<'a> {
    /// In any order; in the cluster's node and uid order they are found fastest.
    pub pods: &'a [PodFacts],
    /// Gangs.
    pub gangs: &'a [Gang],
    /// Disruption budgets.
    pub budgets: &'a [DisruptionBudget],
    /// Indices in `budgets`, each pod's one after the other.
    pub budget_refs: &'a [u32],
    /// Tenants.
    pub tenants: &'a [Tenant],
}

/// Validated side tables with an index by uid: valid for as many plans as nothing in them changes.
#[derive(Debug, Clone, Default)]
pub struct Tables {
    pub(super) pods: Vec<PodFacts>,
    pub(super) gangs: Vec<Gang>,
    pub(super) budgets: Vec<DisruptionBudget>,
    pub(super) budget_refs: Vec<u32>,
    pub(super) tenants: Vec<Tenant>,
    by_uid: HashMap<PodUid, u32, MixBuild>,
}

impl Tables {
    /// Checks and indexes the slices.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] for an index out of its table, a uid listed twice or a time beyond 30 days;
    /// [`Error::LimitExceeded`] above [`MAX_POD_FACTS`] pods.
    pub fn new(side: &SideTables<'_>) -> Result<Self, Error> {
        let mut tables = Self::default();
        tables.reload(side)?;
        Ok(tables)
    }

    /// As [`Tables::new`], in the memory of these tables. After an error they are empty.
    ///
    /// # Errors
    /// As [`Tables::new`].
    pub fn reload(&mut self, side: &SideTables<'_>) -> Result<(), Error> {
        self.clear();
        let loaded = self.load(side);
        if loaded.is_err() {
            self.clear();
        }
        loaded
    }

    fn clear(&mut self) {
        self.pods.clear();
        self.gangs.clear();
        self.budgets.clear();
        self.budget_refs.clear();
        self.tenants.clear();
        self.by_uid.clear();
    }

    fn load(&mut self, side: &SideTables<'_>) -> Result<(), Error> {
        if side.pods.len() > MAX_POD_FACTS {
            return Err(Error::limit("pod facts", side.pods.len() as i128, MAX_POD_FACTS as i128));
        }
        for (position, &budget) in side.budget_refs.iter().enumerate() {
            check_index(
                || format!("budget_refs[{position}]"),
                budget,
                side.budgets.len(),
                "disruption budgets",
            )?;
        }
        self.by_uid.reserve(side.pods.len());
        for (position, facts) in side.pods.iter().enumerate() {
            check_facts(position, facts, side)?;
            if self.by_uid.insert(facts.uid, position as u32).is_some() {
                return Err(Error::invalid(
                    format!("pod facts [{position}].uid"),
                    facts.uid,
                    "it was listed before; list each pod once",
                ));
            }
        }
        self.pods.extend_from_slice(side.pods);
        self.gangs.extend_from_slice(side.gangs);
        self.budgets.extend_from_slice(side.budgets);
        self.budget_refs.extend_from_slice(side.budget_refs);
        self.tenants.extend_from_slice(side.tenants);
        Ok(())
    }

    /// Index of a pod's facts. `hint` is tried first: pods listed in cluster order need no hashing.
    #[inline]
    pub(super) fn find(&self, uid: PodUid, hint: usize) -> Option<usize> {
        if self.pods.get(hint).is_some_and(|facts| facts.uid == uid) {
            return Some(hint);
        }
        self.by_uid.get(&uid).map(|&index| index as usize)
    }
}

fn check_index(
    what: impl Fn() -> String,
    index: u32,
    len: usize,
    table: &str,
) -> Result<(), Error> {
    if (index as usize) < len {
        return Ok(());
    }
    Err(Error::invalid(what(), index, format!("there are {len} {table}; indices start at 0")))
}

fn check_facts(position: usize, facts: &PodFacts, side: &SideTables<'_>) -> Result<(), Error> {
    let what = |field: &str| format!("pod facts [{position}].{field} of pod {}", facts.uid);
    if facts.gang != NONE {
        check_index(|| what("gang"), facts.gang, side.gangs.len(), "gangs")?;
    }
    if facts.tenant != NONE {
        check_index(|| what("tenant"), facts.tenant, side.tenants.len(), "tenants")?;
    }
    let end = u64::from(facts.first_budget) + u64::from(facts.budget_count);
    if facts.budget_count > 0 && end > side.budget_refs.len() as u64 {
        return Err(Error::invalid(
            what("first_budget + budget_count"),
            end,
            format!("there are {} budget_refs", side.budget_refs.len()),
        ));
    }
    for (field, seconds) in [
        ("save_seconds", facts.save_seconds.unwrap_or(0)),
        ("restart_seconds", facts.restart_seconds),
        ("grace_seconds", facts.grace_seconds),
    ] {
        if seconds > MAX_DECLARED_SECONDS {
            return Err(Error::limit(what(field), seconds, MAX_DECLARED_SECONDS));
        }
    }
    Ok(())
}
