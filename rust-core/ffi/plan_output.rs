//! A plan as the header's structs, in the caller's buffers.

use mortise_core::preempt::{
    Blocked, CheckpointFault, Cost, Criterion, NoPlan, Outcome, Placement, Plan, RunnerUp,
    UnitKind, Victim, Warning,
};

use crate::abi;
use crate::boundary::{OutArray, Regions, read_struct};
use crate::fault::Fault;

const _: () = {
    assert!(UnitKind::Pod as u32 == abi::MORTISE_VICTIM_POD);
    assert!(UnitKind::Surplus as u32 == abi::MORTISE_VICTIM_SURPLUS);
    assert!(UnitKind::Gang as u32 == abi::MORTISE_VICTIM_GANG);
    assert!(UnitKind::Terminating as u32 == abi::MORTISE_VICTIM_TERMINATING);
    assert!(Criterion::BudgetViolations as u32 == abi::MORTISE_LOST_BY_BUDGET_VIOLATIONS);
    assert!(Criterion::Tier1Units as u32 == abi::MORTISE_LOST_BY_TRAINING_UNITS);
    assert!(Criterion::LostWork as u32 == abi::MORTISE_LOST_BY_LOST_WORK);
    assert!(Criterion::Units as u32 == abi::MORTISE_LOST_BY_UNITS);
    assert!(Criterion::Stranded as u32 == abi::MORTISE_LOST_BY_STRANDED);
    assert!(Criterion::NodeOrder as u32 == abi::MORTISE_LOST_BY_NODE_ORDER);
};

/// Where the lists of a plan go.
pub(crate) struct PlanOutput {
    victims: OutArray<abi::mortise_victim>,
    placements: OutArray<abi::mortise_plan_placement>,
    runner_ups: OutArray<abi::mortise_runner_up>,
    blocked: OutArray<abi::mortise_blocked>,
    warnings: OutArray<abi::mortise_checkpoint_warning>,
    text: OutArray<u8>,
}

impl PlanOutput {
    /// # Safety
    /// The header's promise for `buffers` and the pointers inside it, until they are written.
    pub(crate) unsafe fn new(
        regions: &mut Regions,
        buffers: *const abi::mortise_plan_buffers,
    ) -> Result<Self, Fault> {
        // SAFETY: the caller passes the header's promise on.
        let b = unsafe { read_struct(regions, "buffers", buffers)? };
        let most = abi::MORTISE_MAX_NODES as usize;
        if b.runner_up_capacity > most {
            return Err(Fault::limit("buffers.runner_up_capacity", b.runner_up_capacity, most));
        }
        macro_rules! strided {
            ($field:ident $capacity:ident $stride:ident) => {{
                let name = concat!("buffers.", stringify!($field));
                // SAFETY: as above.
                unsafe { OutArray::strided(regions, name, b.$field, b.$capacity, b.$stride)? }
            }};
        }
        Ok(Self {
            victims: strided!(victims victim_capacity victim_stride),
            placements: strided!(placements placement_capacity placement_stride),
            runner_ups: strided!(runner_ups runner_up_capacity runner_up_stride),
            blocked: strided!(blocked blocked_capacity blocked_stride),
            warnings: strided!(warnings warning_capacity warning_stride),
            // SAFETY: as above.
            text: unsafe {
                OutArray::packed(regions, "buffers.text", b.text.cast::<u8>(), b.text_capacity)?
            },
        })
    }

    /// Runner-ups the caller has room for.
    pub(crate) const fn runner_ups(&self) -> usize {
        self.runner_ups.capacity()
    }

    /// Writes the lists; they were checked for room before the first is written.
    pub(crate) fn write(&self, outcome: &Outcome) -> Result<abi::mortise_plan, Fault> {
        match outcome {
            Outcome::Plan(plan) => {
                self.victims.check_room(plan.victims.len())?;
                self.placements.check_room(plan.placements.len())?;
                Ok(self.write_plan(plan))
            }
            Outcome::NoPlan(no_plan) => Ok(self.write_no_plan(no_plan)),
        }
    }

    fn write_plan(&self, plan: &Plan) -> abi::mortise_plan {
        let optimal = if plan.optimal { abi::MORTISE_PLAN_OPTIMAL } else { 0 };
        self.text.set_text("");
        abi::mortise_plan {
            flags: abi::MORTISE_PLAN_FOUND | optimal,
            victim_count: fill(&self.victims, &plan.victims, victim),
            placement_count: fill(&self.placements, &plan.placements, placement),
            runner_up_count: fill(&self.runner_ups, &plan.runner_ups, runner_up),
            blocked_count: fill(&self.blocked, &plan.blocked, blocked),
            warning_count: fill(&self.warnings, &plan.warnings, warning),
            guaranteed_count: plan.guaranteed_pods,
            cost: cost(plan.cost),
            evicted_milli: plan.evicted_milli,
            expansions: plan.expansions,
            ..EMPTY
        }
    }

    fn write_no_plan(&self, no_plan: &NoPlan) -> abi::mortise_plan {
        let (evicted, requested) = no_plan.over_ratio.unwrap_or((0, 0));
        self.text.set_text(&no_plan.to_string());
        abi::mortise_plan {
            blocked_count: fill(&self.blocked, &no_plan.blocked, blocked),
            warning_count: fill(&self.warnings, &no_plan.warnings, warning),
            over_ratio_evicted_milli: evicted,
            over_ratio_requested_milli: requested,
            over_budget_violations: no_plan.over_budget.unwrap_or(0),
            placed_count: no_plan.placed_members,
            ..EMPTY
        }
    }
}

const EMPTY: abi::mortise_plan = abi::mortise_plan {
    struct_size: 0,
    flags: 0,
    victim_count: 0,
    placement_count: 0,
    runner_up_count: 0,
    blocked_count: 0,
    warning_count: 0,
    guaranteed_count: 0,
    cost: abi::mortise_plan_cost {
        budget_violations: 0,
        training_units: 0,
        lost_milli_gpu_seconds: 0,
        units: 0,
        reserved: 0,
        stranded_milli: 0,
    },
    evicted_milli: 0,
    expansions: 0,
    over_ratio_evicted_milli: 0,
    over_ratio_requested_milli: 0,
    over_budget_violations: 0,
    placed_count: 0,
};

/// Writes as many as there is room for, and says how many.
fn fill<T, S: crate::boundary::Plain>(
    out: &OutArray<S>,
    items: &[T],
    convert: impl Fn(&T) -> S,
) -> u32 {
    let count = items.len().min(out.capacity());
    for (index, item) in items[..count].iter().enumerate() {
        out.set(index, convert(item));
    }
    count as u32
}

const fn halves(uid: u128) -> (u64, u64) {
    ((uid >> 64) as u64, uid as u64)
}

fn victim(victim: &Victim) -> abi::mortise_victim {
    let (uid_hi, uid_lo) = halves(victim.uid.0);
    abi::mortise_victim {
        uid_hi,
        uid_lo,
        node_ref: victim.node.to_u64(),
        lost_milli_gpu_seconds: victim.lost_milli_gpu_seconds,
        gpu_milli: victim.milli,
        gang: victim.gang,
        kind: victim.kind as u8,
        counts_as_training: u8::from(victim.tier1),
        reserved16: 0,
        reserved: 0,
    }
}

fn placement(placement: &Placement) -> abi::mortise_plan_placement {
    abi::mortise_plan_placement {
        node_ref: placement.node.to_u64(),
        devices: placement.devices.0,
        reserved16: 0,
        reserved: 0,
    }
}

fn runner_up(runner_up: &RunnerUp) -> abi::mortise_runner_up {
    abi::mortise_runner_up {
        node_ref: runner_up.node.to_u64(),
        cost: cost(runner_up.cost),
        lost_by: runner_up.lost_by as u32,
        reserved: 0,
    }
}

fn blocked(blocked: &Blocked) -> abi::mortise_blocked {
    abi::mortise_blocked {
        need: blocked.need,
        most: blocked.most,
        fixed_least_milli: blocked.fixed_milli.0,
        fixed_most_milli: blocked.fixed_milli.1,
        node_count: blocked.nodes,
        reason: blocked.reason as u16,
        reserved16: 0,
    }
}

fn warning(warning: &Warning) -> abi::mortise_checkpoint_warning {
    let (uid_hi, uid_lo) = halves(warning.uid.0);
    let fault = match warning.fault {
        CheckpointFault::InFuture => abi::MORTISE_CHECKPOINT_IN_FUTURE,
        CheckpointFault::BeforeStart => abi::MORTISE_CHECKPOINT_BEFORE_START,
    };
    abi::mortise_checkpoint_warning { uid_hi, uid_lo, fault, reserved: 0 }
}

fn cost(cost: Cost) -> abi::mortise_plan_cost {
    abi::mortise_plan_cost {
        budget_violations: cost.budget_violations,
        training_units: cost.tier1_units,
        lost_milli_gpu_seconds: cost.lost_milli_gpu_seconds,
        units: cost.units,
        reserved: 0,
        stranded_milli: cost.stranded_milli,
    }
}
