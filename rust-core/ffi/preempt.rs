//! Section "preemption calls": who gives way for one pod or for a group.

use mortise_core::preempt::{DisruptionBudget, PlanRequest, Policy, SideTables, Tenant};
use mortise_core::{Candidates, NodeRef};

use crate::abi;
use crate::boundary::{
    InArray, OutStruct, Regions, check_flags, check_reserved, enter, read_struct,
};
use crate::convert::{Place, gang, pod_facts, pod_request};
use crate::fault::Fault;
use crate::handles;
use crate::pin_to_header;
use crate::plan_output::PlanOutput;
use crate::scratch::{Scratch, SideBuffers, refill};

pin_to_header! { mortise_preempt mortise_preempt_group }

/// See the header.
///
/// # Safety
/// The header's promise for its pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mortise_preempt(
    handle: abi::mortise_handle,
    request: *const abi::mortise_preempt_request,
    buffers: *const abi::mortise_plan_buffers,
    out_plan: *mut abi::mortise_plan,
    err: *mut abi::mortise_error,
) -> abi::mortise_status {
    // SAFETY: the header's promise for `request`, `buffers` and `out_plan`.
    let body =
        |regions: &mut Regions| unsafe { plan(regions, handle, request, buffers, out_plan, 1) };
    // SAFETY: the header's promise for `err`.
    unsafe { enter(err, body) }
}

/// See the header.
///
/// # Safety
/// The header's promise for its pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mortise_preempt_group(
    handle: abi::mortise_handle,
    request: *const abi::mortise_preempt_request,
    buffers: *const abi::mortise_plan_buffers,
    out_plan: *mut abi::mortise_plan,
    err: *mut abi::mortise_error,
) -> abi::mortise_status {
    let most = abi::MORTISE_MAX_GROUP_PODS as usize;
    // SAFETY: the header's promise for `request`, `buffers` and `out_plan`.
    let body =
        |regions: &mut Regions| unsafe { plan(regions, handle, request, buffers, out_plan, most) };
    // SAFETY: the header's promise for `err`.
    unsafe { enter(err, body) }
}

/// # Safety
/// The header's promise for the pointers.
unsafe fn plan(
    regions: &mut Regions,
    handle: abi::mortise_handle,
    request: *const abi::mortise_preempt_request,
    buffers: *const abi::mortise_plan_buffers,
    out_plan: *mut abi::mortise_plan,
    most_pods: usize,
) -> Result<(), Fault> {
    let cluster = handles::get(handle)?;
    // SAFETY: the caller passes the header's promise on.
    let request = unsafe { read_struct(regions, "request", request)? };
    check_request(&request, most_pods)?;
    // SAFETY: as above, for the pointers inside `request`.
    let input = unsafe { PlanInput::new(regions, &request)? };
    // SAFETY: as above.
    let output = unsafe { PlanOutput::new(regions, buffers)? };
    // SAFETY: as above.
    let out_plan = unsafe { OutStruct::new(regions, "out_plan", out_plan)? };

    let mut scratch = cluster.scratch();
    let Scratch { named, side, tables, planner, .. } = &mut *scratch;
    let listed = input.candidates.iter().map(|node| Ok(NodeRef::from_u64(node?)));
    refill(named, "candidates", input.candidates.len(), listed)?;
    input.fill(side)?;
    tables.reload(&SideTables {
        pods: &side.facts,
        gangs: &side.gangs,
        budgets: &side.budgets,
        budget_refs: &side.budget_refs,
        tenants: &side.tenants,
    })?;
    let all = request.flags & abi::MORTISE_PREEMPT_ALL_NODES != 0;
    let wanted = PlanRequest {
        now_seconds: request.now_seconds,
        members: &side.members,
        nodes: if all { Candidates::All } else { Candidates::Refs(named) },
        domains: &side.domains,
    };
    let policy = policy(&request, output.runner_ups());
    let outcome = cluster.read(|kernel| Ok(planner.plan_in(kernel, tables, &policy, &wanted)?))?;
    out_plan.write(output.write(&outcome)?);
    Ok(())
}

fn check_request(request: &abi::mortise_preempt_request, most_pods: usize) -> Result<(), Fault> {
    const KNOWN: u32 = abi::MORTISE_PREEMPT_ALL_NODES | abi::MORTISE_PREEMPT_HARD_BUDGETS;
    check_flags("request.flags", request.flags, KNOWN)?;
    check_reserved("request.reserved", request.reserved.into())?;
    if request.pod_count == 0 || request.pod_count > most_pods {
        return Err(Fault::new(
            abi::MORTISE_ERR_BAD_LENGTH,
            format!("request.pod_count is {}; it must be in 1..{most_pods}", request.pod_count),
        ));
    }
    let all = request.flags & abi::MORTISE_PREEMPT_ALL_NODES != 0;
    if all && request.candidate_count > 0 {
        return Err(Fault::invalid(
            "request.candidate_count",
            request.candidate_count,
            "with MORTISE_PREEMPT_ALL_NODES it must be 0",
        ));
    }
    if !request.domains.is_null() && (all || most_pods == 1) {
        return Err(Fault::invalid(
            "request.domains",
            "given",
            "only mortise_preempt_group with listed candidates takes domains; pass NULL",
        ));
    }
    if request.guarantee_lost_milli_gpu_seconds < 0 {
        return Err(Fault::invalid(
            "request.guarantee_lost_milli_gpu_seconds",
            request.guarantee_lost_milli_gpu_seconds,
            "it must not be negative; 0 means none",
        ));
    }
    for (field, seconds) in [
        ("request.restart_seconds", request.restart_seconds),
        ("request.grace_seconds", request.grace_seconds),
    ] {
        if seconds > abi::MORTISE_MAX_DECLARED_SECONDS {
            return Err(Fault::limit(field, seconds, abi::MORTISE_MAX_DECLARED_SECONDS));
        }
    }
    Ok(())
}

fn policy(request: &abi::mortise_preempt_request, runner_ups: usize) -> Policy {
    Policy {
        hard_budgets: request.flags & abi::MORTISE_PREEMPT_HARD_BUDGETS != 0,
        guarantee_after: request.guarantee_after,
        guarantee_lost_milli_gpu_seconds: match request.guarantee_lost_milli_gpu_seconds {
            0 => i64::MAX,
            given => given,
        },
        guarantee_milli: request.guarantee_milli,
        ratio_permille: Some(request.ratio_permille).filter(|&ratio| ratio > 0),
        restart_seconds: request.restart_seconds,
        grace_seconds: request.grace_seconds,
        expansions: match request.expansions {
            0 => Policy::default().expansions,
            given => given,
        },
        runner_ups,
    }
}

/// The arrays of a request, checked.
struct PlanInput {
    pods: InArray<abi::mortise_pod_request>,
    candidates: InArray<u64>,
    domains: InArray<u32>,
    facts: InArray<abi::mortise_pod_facts>,
    gangs: InArray<abi::mortise_gang>,
    budgets: InArray<u32>,
    budget_refs: InArray<u32>,
    tenants: InArray<u64>,
}

impl PlanInput {
    /// # Safety
    /// The header's promise for the pointers inside `r`.
    unsafe fn new(regions: &mut Regions, r: &abi::mortise_preempt_request) -> Result<Self, Fault> {
        let (pods, nodes) = (abi::MORTISE_MAX_GROUP_PODS.into(), abi::MORTISE_MAX_NODES.into());
        let side = abi::MORTISE_MAX_POD_FACTS.into();
        let domain_count = if r.domains.is_null() { 0 } else { r.candidate_count };
        // SAFETY: the caller passes the header's promise on.
        let pods = unsafe {
            InArray::strided(regions, "request.pods", r.pods, r.pod_count, r.pod_stride, pods)?
        };
        // SAFETY: as above.
        let candidates = unsafe {
            let name = "request.candidates";
            InArray::packed(regions, name, r.candidates, r.candidate_count, nodes)?
        };
        // SAFETY: as above.
        let domains =
            unsafe { InArray::packed(regions, "request.domains", r.domains, domain_count, nodes)? };
        // SAFETY: as above.
        let facts = unsafe {
            InArray::strided(regions, "request.facts", r.facts, r.fact_count, r.fact_stride, side)?
        };
        // SAFETY: as above.
        let gangs = unsafe {
            InArray::strided(regions, "request.gangs", r.gangs, r.gang_count, r.gang_stride, side)?
        };
        // SAFETY: as above.
        let budgets = unsafe {
            InArray::packed(regions, "request.budgets", r.budgets, r.budget_count, side)?
        };
        // SAFETY: as above.
        let budget_refs = unsafe {
            let (name, most) = ("request.budget_refs", abi::MORTISE_MAX_BUDGET_REFS.into());
            InArray::packed(regions, name, r.budget_refs, r.budget_ref_count, most)?
        };
        // SAFETY: as above.
        let tenants = unsafe {
            InArray::packed(regions, "request.tenants", r.tenants, r.tenant_count, side)?
        };
        Ok(Self { pods, candidates, domains, facts, gangs, budgets, budget_refs, tenants })
    }

    fn fill(&self, side: &mut SideBuffers) -> Result<(), Fault> {
        let pods = self.pods.iter().enumerate().map(|(index, pod)| {
            pod_request(Place::at("request.pods", index), &pod?).map(|(pod, _)| pod)
        });
        refill(&mut side.members, "pods", self.pods.len(), pods)?;
        self.domains.copy_to(&mut side.domains)?;
        let facts = self.facts.iter().enumerate().map(|(index, facts)| pod_facts(index, &facts?));
        refill(&mut side.facts, "pod facts", self.facts.len(), facts)?;
        let gangs = self.gangs.iter().enumerate().map(|(index, entry)| gang(index, &entry?));
        refill(&mut side.gangs, "gangs", self.gangs.len(), gangs)?;
        let budgets = self.budgets.iter().map(|allowed| Ok(DisruptionBudget { allowed: allowed? }));
        refill(&mut side.budgets, "disruption budgets", self.budgets.len(), budgets)?;
        self.budget_refs.copy_to(&mut side.budget_refs)?;
        let tenants = self.tenants.iter().map(|milli| Ok(Tenant { guarantee_milli: milli? }));
        refill(&mut side.tenants, "tenants", self.tenants.len(), tenants)
    }
}
