//! Room for several pods at once: a weighted multi-cover, NP-hard.
//!
//! Two greedy passes (cheapest node next; cheapest per GPU that its victims uncover anywhere), victims given back in
//! reverse, then branch and bound over the members' nodes while the budget lasts. The best so far is always valid.

use super::board::Board;
use super::candidates::survey;
use super::cost::Cost;
use super::nodes::{Wanted, best_nodes, cheaper_per_gpu};
use super::scene::Scene;
use super::select::{Budget, Limit, choose_devices, search};
use crate::request::PodRequest;

/// Nodes tried per member in a greedy step.
const GREEDY_WIDTH: usize = 6;
/// Nodes tried per member when branching.
const BRANCH_WIDTH: usize = 12;

/// A slot for each member and the pods to take.
#[derive(Clone, Debug)]
pub(super) struct GroupPlan {
    /// Of the victims alone.
    pub(super) cost: Cost,
    /// Per member.
    pub(super) slots: Vec<u32>,
    pub(super) requests: Vec<u32>,
}

/// Either a plan or the number of members that found room.
pub(super) fn plan_group(
    board: &mut Board,
    scene: &Scene<'_>,
    slots: &[u32],
    budget: &mut Budget,
) -> Result<GroupPlan, usize> {
    let members = scene.members;
    let mut order: Vec<usize> = (0..members.len()).collect();
    order.sort_by_key(|&m| {
        let request = &members[m];
        let size = (request.gpu.total_milli(), request.cpu, request.memory);
        (std::cmp::Reverse(size), request.models, m)
    });
    let mut group = Group { board, scene, slots, order, budget };
    let mut best: Result<GroupPlan, usize> = Err(0);
    for width in [1, GREEDY_WIDTH] {
        match group.greedy(width) {
            Ok(plan) => {
                let plan = group.give_back(plan);
                if best.as_ref().map_or(true, |best| plan.cost < best.cost) {
                    best = Ok(plan);
                }
            }
            Err(placed) => best = best.map_err(|most| most.max(placed)),
        }
    }
    group.improve(best)
}

struct Group<'s, 'a> {
    board: &'s mut Board,
    scene: &'s Scene<'a>,
    slots: &'s [u32],
    /// Members, largest first, equals together.
    order: Vec<usize>,
    budget: &'s mut Budget,
}

fn no_stranded(_: &crate::cluster::FreeShape) -> i64 {
    0
}

impl<'s> Group<'s, '_> {
    fn greedy(&mut self, width: usize) -> Result<GroupPlan, usize> {
        let start = self.board.mark();
        let mut plan = GroupPlan {
            cost: Cost::default(),
            slots: vec![u32::MAX; self.order.len()],
            requests: Vec::new(),
        };
        let mut result = Ok(());
        for at in 0..self.order.len() {
            let member = self.order[at];
            let request = &self.scene.members[member];
            let wanted = Wanted { slots: self.slots, request, keep: width };
            let nodes =
                best_nodes(self.board, self.scene, wanted, self.budget, &mut no_stranded, None);
            let chosen = if nodes.len() > 1 {
                nodes.iter().min_by(|a, b| {
                    let (a, b) = (
                        self.rate(at, a.slot, &a.found.requests),
                        self.rate(at, b.slot, &b.found.requests),
                    );
                    cheaper_per_gpu(a, b)
                })
            } else {
                nodes.first()
            };
            let Some(node) = chosen else {
                result = Err(at);
                break;
            };
            if !self.apply(node.slot, &node.found.requests, request) {
                result = Err(at);
                break;
            }
            plan.requests.extend_from_slice(&node.found.requests);
            plan.slots[member] = node.slot;
        }
        plan.cost = self.board.cost;
        self.board.undo(self.scene, start);
        result.map(|()| plan)
    }

    /// Extra cost of putting member `at` on a slot, and the GPU of this and the next members it makes room for.
    fn rate(&mut self, at: usize, slot: u32, requests: &[u32]) -> (Cost, u64) {
        let mark = self.board.mark();
        let before = self.board.cost;
        let first = &self.scene.members[self.order[at]];
        let mut covered = 0;
        if self.apply(slot, requests, first) {
            covered = covers(first);
            let mut touched: Vec<u32> = self
                .board
                .evicted_since(mark)
                .map(|index| self.board.pieces[index as usize].slot)
                .chain([slot])
                .collect();
            touched.sort_unstable();
            touched.dedup();
            touched.retain(|slot| self.slots.binary_search(slot).is_ok());
            for next in at + 1..self.order.len() {
                let request = &self.scene.members[self.order[next]];
                let free = touched.iter().copied().find(|&slot| {
                    let bound = survey(self.board, self.scene, slot as usize, request);
                    bound.is_ok_and(|bound| bound == self.board.cost)
                });
                let Some(slot) = free else { break };
                self.put(slot, request);
                covered += covers(request);
            }
        }
        let after = self.board.cost;
        self.board.undo(self.scene, mark);
        let cost = Cost {
            budget_violations: after.budget_violations - before.budget_violations,
            tier1_units: after.tier1_units - before.tier1_units,
            lost_milli_gpu_seconds: after.lost_milli_gpu_seconds - before.lost_milli_gpu_seconds,
            units: after.units - before.units,
            stranded_milli: 0,
        };
        (cost, covered.max(1))
    }

    /// Takes the pods and puts the member on the slot; false when it does not work out.
    fn apply(&mut self, slot: u32, requests: &[u32], request: &PodRequest) -> bool {
        requests.iter().all(|&index| self.board.take(self.scene, index)) && self.put(slot, request)
    }

    fn put(&mut self, slot: u32, request: &PodRequest) -> bool {
        if !self.board.fits(self.scene, slot as usize, request) {
            return false;
        }
        let shape = self.board.shape(self.scene, slot as usize);
        let chosen = choose_devices(&shape, request, &mut no_stranded);
        chosen.is_some_and(|(devices, _)| {
            self.board.place(slot, devices, request);
            true
        })
    }

    /// Whether all members fit their slots once only `requests` are taken; the cost then.
    fn holds(&mut self, slots: &[u32], requests: &[u32]) -> Option<Cost> {
        let mark = self.board.mark();
        let mut holds = requests.iter().all(|&index| self.board.take(self.scene, index));
        for at in 0..self.order.len() {
            let member = self.order[at];
            holds = holds && self.put(slots[member], &self.scene.members[member]);
        }
        let cost = self.board.cost;
        self.board.undo(self.scene, mark);
        holds.then_some(cost)
    }

    /// Gives back, last taken first, every pod the members do not need.
    fn give_back(&mut self, mut plan: GroupPlan) -> GroupPlan {
        for at in (0..plan.requests.len()).rev() {
            let mut fewer = plan.requests.clone();
            fewer.remove(at);
            if let Some(cost) = self.holds(&plan.slots, &fewer) {
                plan.requests = fewer;
                plan.cost = cost;
            }
        }
        plan
    }

    fn improve(mut self, best: Result<GroupPlan, usize>) -> Result<GroupPlan, usize> {
        let mut search = Branch {
            slots: vec![u32::MAX; self.order.len()],
            requests: Vec::new(),
            best: best.as_ref().ok().cloned(),
            deepest: best.as_ref().err().copied().unwrap_or(0),
        };
        if best.is_err() || best.is_ok_and(|best| best.cost > Cost::default()) {
            self.branch(&mut search, 0);
        }
        search.best.map(|plan| self.give_back(plan)).ok_or(search.deepest)
    }

    fn branch(&mut self, search: &mut Branch, at: usize) {
        search.deepest = search.deepest.max(at);
        let best = search.best.as_ref().map(|best| best.cost);
        if best.is_some_and(|best| self.board.cost >= best) {
            return;
        }
        let Some(&member) = self.order.get(at) else {
            search.best = Some(GroupPlan {
                cost: self.board.cost,
                slots: search.slots.clone(),
                requests: search.requests.clone(),
            });
            return;
        };
        let request = &self.scene.members[member];
        let mut open: Vec<(Cost, u32)> = Vec::new();
        for &slot in self.first_slot(search, at) {
            if let Ok(bound) = survey(self.board, self.scene, slot as usize, request)
                && best.is_none_or(|best| bound < best)
            {
                open.push((bound, slot));
            }
        }
        open.sort_unstable();
        for (_, slot) in open.into_iter().take(BRANCH_WIDTH) {
            if self.budget.left == 0 {
                self.budget.exhausted = true;
                return;
            }
            self.branch_to(search, at, slot);
        }
    }

    fn branch_to(&mut self, search: &mut Branch, at: usize, slot: u32) {
        let member = self.order[at];
        let request = &self.scene.members[member];
        let limit = match &search.best {
            Some(best) => Limit::AtMost(best.cost),
            None => Limit::Open,
        };
        let found = search_slot(self.board, self.scene, slot, request, limit, self.budget);
        let Some(requests) = found else { return };
        let mark = self.board.mark();
        let asked = search.requests.len();
        if self.apply(slot, &requests, request) {
            search.requests.extend_from_slice(&requests);
            search.slots[member] = slot;
            self.branch(search, at + 1);
            search.requests.truncate(asked);
        }
        self.board.undo(self.scene, mark);
    }

    /// Equal members take slots in rising order.
    fn first_slot(&self, search: &Branch, at: usize) -> &'s [u32] {
        if at == 0 {
            return self.slots;
        }
        let (before, member) = (self.order[at - 1], self.order[at]);
        let (a, b) = (&self.scene.members[before], &self.scene.members[member]);
        let same = (a.gpu, a.cpu, a.memory, a.models) == (b.gpu, b.cpu, b.memory, b.models);
        if !same {
            return self.slots;
        }
        let from = self.slots.partition_point(|&slot| slot < search.slots[before]);
        &self.slots[from..]
    }
}

struct Branch {
    slots: Vec<u32>,
    requests: Vec<u32>,
    best: Option<GroupPlan>,
    deepest: usize,
}

fn search_slot(
    board: &mut Board,
    scene: &Scene<'_>,
    slot: u32,
    request: &PodRequest,
    limit: Limit,
    budget: &mut Budget,
) -> Option<Vec<u32>> {
    budget.left = budget.left.saturating_sub(1);
    budget.used += 1;
    search(board, scene, slot as usize, request, limit, budget, &mut no_stranded)
        .map(|found| found.requests)
}

/// What a member covers: its GPUs, or one milli-GPU without any.
fn covers(request: &PodRequest) -> u64 {
    u64::from(request.gpu.total_milli()).max(1)
}
