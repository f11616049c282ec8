//! Who must give way so that a pending pod, or its whole gang, fits: victims by the work they lose.
//!
//! [`tables`] holds what is known of running pods beyond their records, [`policy`] the limits; [`cost`] says what an
//! eviction loses and in which order plans are compared; `scene` is what a plan is made from, `board` the cluster as it changes, `units` the
//! progress guarantee; `candidates` bounds each node, `select` is exact on one node, `nodes` ranks them, `group` covers
//! several pods; `stranded` asks for the measure; [`plan`] is the answer. [`Planner::plan`] is the way in. Nothing here reads a clock.

mod assemble;
mod board;
mod candidates;
mod cost;
mod group;
mod nodes;
mod plan;
mod policy;
mod scene;
mod select;
mod stranded;
mod tables;
mod units;

pub use cost::{CheckpointFault, Cost, Criterion, lost_milli_gpu_seconds};
pub use plan::{Blocked, NoPlan, Outcome, Placement, Plan, RunnerUp, UnitKind, Victim, Warning};
pub use policy::{
    MAX_PLAN_INTERVAL_SECONDS, PLAN_INTERVAL_SECONDS, PlanHistory, Policy, tier_yields, yields,
};
pub use select::StrandedOf;
pub use tables::{
    Disruption, DisruptionBudget, Gang, MAX_DECLARED_SECONDS, MAX_POD_FACTS, NONE, PodFacts,
    SideTables, Tables, Tenant,
};

use crate::cluster::{Cluster, FreeShape};
use crate::error::Error;
use crate::kernel::{Candidates, Kernel};
use crate::request::PodRequest;
use board::Board;
use group::{GroupPlan, plan_group};
use nodes::{Wanted, best_nodes};
use scene::{Bounds, Scene};
use select::Budget;
use stranded::StrandedMemo;

/// Pods one plan may make room for.
pub const MAX_GROUP_MEMBERS: usize = 4_096;

/// What room is wanted for.
#[derive(Clone, Copy, Debug)]
pub struct PlanRequest<'a> {
    /// Now, Unix seconds.
    pub now_seconds: i64,
    /// One pod, or all missing members of its gang; of one tier and one priority.
    pub members: &'a [PodRequest],
    /// Nodes that may be used.
    pub nodes: Candidates<'a>,
    /// Topology domain of each listed node, if all members must come into one domain; else empty.
    pub domains: &'a [u32],
}

/// Plans evictions. Holds working memory only: the same inputs give the same plan.
#[derive(Debug, Default)]
pub struct Planner {
    board: Board,
    slots: Vec<u32>,
    stranded: StrandedMemo,
}

impl Planner {
    /// A planner without working memory.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The cheapest way to make room, or why there is none. `stranded` gives the expected stranded milli-GPU of a free
    /// shape; it breaks ties only.
    ///
    /// # Errors
    /// [`Error::InvalidValue`], [`Error::LimitExceeded`] or [`Error::BadLength`] for the request,
    /// [`Error::StaleNode`] or [`Error::UnknownNode`] for a node.
    pub fn plan(
        &mut self,
        cluster: &Cluster,
        tables: &Tables,
        policy: &Policy,
        request: &PlanRequest<'_>,
        stranded: &mut StrandedOf<'_>,
    ) -> Result<Outcome, Error> {
        let domains = self.check(cluster, request)?;
        let members = request.members;
        let requested: u64 = members.iter().map(requested_milli).sum();
        let mut scene = Scene {
            cluster,
            tables,
            policy,
            now_seconds: request.now_seconds,
            tier: members[0].tier,
            priority: members[0].priority,
            members,
            bounds: Bounds {
                hard_budgets: policy.hard_budgets,
                evicted_milli: policy.eviction_limit(requested),
            },
        };
        self.board.set_up(&scene);
        let mut memo = std::mem::take(&mut self.stranded);
        memo.clear();
        let outcome =
            self.outcome(&mut scene, &domains, requested, &mut |shape| memo.of(shape, stranded));
        self.stranded = memo;
        Ok(outcome)
    }

    /// A plan within all limits; else what a plan beyond one of them would come to.
    fn outcome(
        &mut self,
        scene: &mut Scene<'_>,
        domains: &[(u32, u32)],
        requested: u64,
        stranded: &mut StrandedOf<'_>,
    ) -> Outcome {
        let no_plan = match self.attempt(scene, domains, stranded) {
            Ok(plan) => return Outcome::Plan(Box::new(plan)),
            Err(no_plan) => no_plan,
        };
        let mut no_plan = no_plan;
        if scene.bounds.evicted_milli != u64::MAX {
            scene.bounds.evicted_milli = u64::MAX;
            if let Ok(plan) = self.attempt(scene, domains, stranded) {
                no_plan.over_ratio = Some((plan.evicted_milli, requested));
                no_plan.blocked = plan.blocked;
            }
        }
        if scene.bounds.hard_budgets && no_plan.over_ratio.is_none() {
            scene.bounds.hard_budgets = false;
            scene.bounds.evicted_milli = scene.policy.eviction_limit(requested);
            if let Ok(plan) = self.attempt(scene, domains, stranded) {
                no_plan.over_budget = Some(plan.cost.budget_violations);
                no_plan.blocked = plan.blocked;
            }
        }
        Outcome::NoPlan(Box::new(no_plan))
    }

    /// As [`Planner::plan`], on a kernel's cluster and with what it learned about stranding.
    ///
    /// # Errors
    /// As [`Planner::plan`].
    pub fn plan_in(
        &mut self,
        kernel: &Kernel,
        tables: &Tables,
        policy: &Policy,
        request: &PlanRequest<'_>,
    ) -> Result<Outcome, Error> {
        let mut stranded =
            |shape: &FreeShape| i64::from(kernel.stranding().expected_stranded_milli(shape));
        self.plan(kernel.cluster(), tables, policy, request, &mut stranded)
    }

    fn attempt(
        &mut self,
        scene: &Scene<'_>,
        domains: &[(u32, u32)],
        stranded: &mut StrandedOf<'_>,
    ) -> Result<Plan, NoPlan> {
        let mut budget = Budget::new(scene.policy.expansions);
        match scene.members {
            [one] => self.one(scene, one, &mut budget, stranded),
            _ => self.several(scene, domains, &mut budget, stranded),
        }
    }

    fn one(
        &mut self,
        scene: &Scene<'_>,
        request: &PodRequest,
        budget: &mut Budget,
        stranded: &mut StrandedOf<'_>,
    ) -> Result<Plan, NoPlan> {
        let mut blocked = Vec::new();
        let keep = 1 + scene.policy.runner_ups;
        let wanted = Wanted { slots: &self.slots, request, keep };
        let board = &mut self.board;
        let mut nodes = best_nodes(board, scene, wanted, budget, stranded, Some(&mut blocked));
        if nodes.is_empty() {
            return Err(self.refuse(blocked, 0));
        }
        let winner = nodes.remove(0);
        let group = GroupPlan {
            cost: winner.found.cost,
            slots: vec![winner.slot],
            requests: winner.found.requests,
        };
        let mut plan = assemble::assemble(board, scene, &group, stranded);
        plan.optimal = !budget.exhausted && !board.has_unknown(winner.slot as usize);
        plan.expansions = budget.used;
        plan.runner_ups = nodes
            .iter()
            .map(|node| RunnerUp {
                node: scene.cluster.node_ref(node.slot as usize),
                cost: node.found.cost,
                lost_by: Criterion::between(node.found.cost, plan.cost),
            })
            .collect();
        blocked.sort_by_key(|entry| (std::cmp::Reverse(entry.nodes), entry.reason));
        plan.blocked = blocked;
        Ok(plan)
    }

    fn several(
        &mut self,
        scene: &Scene<'_>,
        domains: &[(u32, u32)],
        budget: &mut Budget,
        stranded: &mut StrandedOf<'_>,
    ) -> Result<Plan, NoPlan> {
        let mut best: Option<GroupPlan> = None;
        let mut placed = 0;
        let groups: Vec<Vec<u32>> = if domains.is_empty() {
            vec![self.slots.clone()]
        } else {
            domains
                .chunk_by(|a, b| a.0 == b.0)
                .map(|chunk| chunk.iter().map(|&(_, slot)| slot).collect())
                .collect()
        };
        for slots in &groups {
            match plan_group(&mut self.board, scene, slots, budget) {
                Ok(plan) if best.as_ref().is_none_or(|best| plan.cost < best.cost) => {
                    best = Some(plan);
                }
                Ok(_) => {}
                Err(most) => placed = placed.max(most),
            }
        }
        let Some(best) = best else {
            let mut blocked = Vec::new();
            let smallest = scene.members.iter().min_by_key(|m| m.gpu.total_milli());
            for &slot in &self.slots {
                if let Some(request) = smallest
                    && let Err((unfit, fixed)) =
                        candidates::survey(&mut self.board, scene, slot as usize, request)
                {
                    Blocked::add(&mut blocked, unfit, fixed);
                }
            }
            return Err(self.refuse(blocked, placed as u32));
        };
        let mut plan = assemble::assemble(&mut self.board, scene, &best, stranded);
        plan.expansions = budget.used;
        Ok(plan)
    }

    fn refuse(&self, mut blocked: Vec<Blocked>, placed_members: u32) -> NoPlan {
        blocked.sort_by_key(|entry| (std::cmp::Reverse(entry.nodes), entry.reason));
        NoPlan {
            blocked,
            over_ratio: None,
            over_budget: None,
            placed_members,
            warnings: self.board.warnings.clone(),
        }
    }

    /// Validates the request, lists its slots in rising order, and returns (domain, slot) sorted.
    fn check(
        &mut self,
        cluster: &Cluster,
        request: &PlanRequest<'_>,
    ) -> Result<Vec<(u32, u32)>, Error> {
        let members = request.members;
        let Some(first) = members.first() else {
            return Err(Error::BadLength {
                what: "members".to_owned(),
                len: 0,
                expected: "at least one pod".to_owned(),
            });
        };
        if members.len() > MAX_GROUP_MEMBERS {
            return Err(Error::limit(
                "members of one plan",
                members.len() as i128,
                MAX_GROUP_MEMBERS as i128,
            ));
        }
        for (position, member) in members.iter().enumerate() {
            member.validate()?;
            if !member.mig.is_none() {
                return Err(Error::NotSupported {
                    what: "preemption for a pod that asks for MIG instances".to_owned(),
                    fix: "it waits until instances are free".to_owned(),
                });
            }
            if (member.tier, member.priority) != (first.tier, first.priority) {
                return Err(Error::invalid(
                    format!("members[{position}]"),
                    format!("tier {:?}, priority {}", member.tier, member.priority.0),
                    format!(
                        "all members share the first one's tier {:?} and priority {}",
                        first.tier, first.priority.0
                    ),
                ));
            }
        }
        self.slots.clear();
        match request.nodes {
            Candidates::All => self.slots.extend(cluster.nodes().map(|node| node.index)),
            Candidates::Refs(nodes) => {
                for (position, &node) in nodes.iter().enumerate() {
                    self.slots.push(cluster.check_ref(node, || format!("nodes[{position}]"))?);
                }
            }
        }
        let mut domains = Vec::new();
        if !request.domains.is_empty() {
            if request.domains.len() != self.slots.len() {
                return Err(Error::BadLength {
                    what: "domains".to_owned(),
                    len: request.domains.len(),
                    expected: format!("{}, one per node", self.slots.len()),
                });
            }
            domains.extend(request.domains.iter().copied().zip(self.slots.iter().copied()));
            domains.sort_unstable();
            domains.dedup();
        }
        self.slots.sort_unstable();
        self.slots.dedup();
        Ok(domains)
    }
}

/// What the ratio limit counts as requested: a share is a whole card.
fn requested_milli(request: &PodRequest) -> u64 {
    u64::from(request.gpu.count()) * 1_000
}
