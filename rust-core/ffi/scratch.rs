//! Buffers that one call converts its input into; kept between calls, so that a warm call does not allocate.

use mortise_core::preempt::{DisruptionBudget, Gang, Planner, PodFacts, Tables, Tenant};
use mortise_core::{NodeDelta, NodeReason, NodeRef, NodeScore, PodRecord, PodRequest};

use crate::fault::Fault;

/// One call's buffers.
#[derive(Default)]
pub(crate) struct Scratch {
    pub(crate) upserts: Vec<NodeDelta>,
    pub(crate) pods: Vec<PodRecord>,
    pub(crate) refs: Vec<NodeRef>,
    /// Candidates or removals.
    pub(crate) named: Vec<NodeRef>,
    pub(crate) scores: Vec<NodeScore>,
    pub(crate) reasons: Vec<NodeReason>,
    pub(crate) side: SideBuffers,
    pub(crate) tables: Tables,
    pub(crate) planner: Planner,
}

/// What a plan is asked for and from, converted.
#[derive(Default)]
pub(crate) struct SideBuffers {
    pub(crate) members: Vec<PodRequest>,
    pub(crate) domains: Vec<u32>,
    pub(crate) facts: Vec<PodFacts>,
    pub(crate) gangs: Vec<Gang>,
    pub(crate) budgets: Vec<DisruptionBudget>,
    pub(crate) budget_refs: Vec<u32>,
    pub(crate) tenants: Vec<Tenant>,
}

/// Fills `buffer` anew with `count` converted elements.
pub(crate) fn refill<T>(
    buffer: &mut Vec<T>,
    what: &str,
    count: usize,
    elements: impl Iterator<Item = Result<T, Fault>>,
) -> Result<(), Fault> {
    buffer.clear();
    buffer.try_reserve(count).map_err(|_| Fault::out_of_memory(what, count))?;
    for element in elements {
        buffer.push(element?);
    }
    Ok(())
}

/// Makes `buffer` exactly `count` times `value`.
pub(crate) fn reset<T: Clone>(
    buffer: &mut Vec<T>,
    what: &str,
    count: usize,
    value: T,
) -> Result<(), Fault> {
    buffer.clear();
    buffer.try_reserve(count).map_err(|_| Fault::out_of_memory(what, count))?;
    buffer.resize(count, value);
    Ok(())
}
