//! The best nodes for one pod: nodes in the order of their bounds, each worked out until no bound can win.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::board::Board;
use super::candidates::survey;
use super::cost::Cost;
use super::plan::Blocked;
use super::scene::Scene;
use super::select::{Budget, Found, Limit, StrandedOf, search};
use crate::filter::{Reason, Unfit};
use crate::request::PodRequest;
use crate::units::NodeKey;

/// A node with its best victims.
#[derive(Clone, Debug)]
pub(super) struct NodePlan {
    pub(super) slot: u32,
    pub(super) key: NodeKey,
    pub(super) found: Found,
}

/// One pod and the nodes it may get.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'w> {
    pub(super) slots: &'w [u32],
    pub(super) request: &'w PodRequest,
    /// How many of the best nodes are wanted.
    pub(super) keep: usize,
}

/// The best nodes, best first; closed nodes are counted in `blocked`.
pub(super) fn best_nodes(
    board: &mut Board,
    scene: &Scene<'_>,
    wanted: Wanted<'_>,
    budget: &mut Budget,
    stranded: &mut StrandedOf<'_>,
    mut blocked: Option<&mut Vec<Blocked>>,
) -> Vec<NodePlan> {
    let Wanted { slots, request, keep } = wanted;
    let mut open = Vec::with_capacity(slots.len());
    for &slot in slots {
        match survey(board, scene, slot as usize, request) {
            Ok(bound) => {
                // At best the plan strands nothing of what is idle now.
                let idle = i64::from(scene.cluster.shape(slot as usize).idle_milli());
                let bound = Cost { stranded_milli: -idle, ..bound };
                open.push(Reverse((bound, scene.cluster.key(slot as usize), slot)));
            }
            Err((unfit, fixed)) => {
                if let Some(blocked) = blocked.as_deref_mut() {
                    Blocked::add(blocked, unfit, fixed);
                }
            }
        }
    }
    let mut open = BinaryHeap::from(open);
    let mut best: Vec<NodePlan> = Vec::with_capacity(keep + 1);
    let order = |node: &NodePlan| (node.found.cost, node.key);
    while let Some(Reverse((bound, key, slot))) = open.pop() {
        let worst = if best.len() == keep { best.last().map(order) } else { None };
        let limit = match worst {
            None => Limit::Open,
            Some(worst) if (bound, key) > worst => break,
            Some((cost, worst_key)) if key < worst_key => Limit::AtMost(cost),
            Some((cost, _)) => Limit::Below(cost),
        };
        let base = stranded(&scene.cluster.shape(slot as usize));
        if limit.excludes(Cost { stranded_milli: -base, ..bound }) {
            continue;
        }
        let found = search(board, scene, slot as usize, request, limit, budget, stranded);
        let Some(found) = found else {
            if worst.is_none()
                && let Some(blocked) = blocked.as_deref_mut()
            {
                let unfit =
                    Unfit { reason: Reason::InsufficientGpu, need: 0, have: 0, largest_free: 0 };
                Blocked::add(blocked, unfit, fixed_milli(board, slot as usize));
            }
            continue;
        };
        let at = best.partition_point(|node| order(node) < (found.cost, key));
        best.insert(at, NodePlan { slot, key, found });
        best.truncate(keep);
    }
    best
}

fn fixed_milli(board: &Board, slot: usize) -> u64 {
    board
        .on_slot(slot)
        .filter(|&index| !board.pieces[index as usize].gone && !board.may_go(index))
        .map(|index| u64::from(board.pieces[index as usize].milli))
        .sum()
}

/// Costs per covered milli-GPU, compared as fractions field by field.
pub(super) fn cheaper_per_gpu(a: (Cost, u64), b: (Cost, u64)) -> std::cmp::Ordering {
    let cross = |x: i64, y: u64| i128::from(x) * i128::from(y);
    let by = |f: fn(&Cost) -> i64| cross(f(&a.0), b.1).cmp(&cross(f(&b.0), a.1));
    by(|cost| i64::from(cost.budget_violations))
        .then_with(|| by(|cost| i64::from(cost.tier1_units)))
        .then_with(|| by(|cost| cost.lost_milli_gpu_seconds))
        .then_with(|| by(|cost| i64::from(cost.units)))
        .then_with(|| by(|cost| cost.stranded_milli))
}
