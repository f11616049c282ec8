//! From the pods to take to a plan: devices, the terminating pods it waits for, the victims by name.

use super::board::Board;
use super::cost::Cost;
use super::group::GroupPlan;
use super::plan::{Placement, Plan, UnitKind, Victim};
use super::scene::{Role, Scene};
use super::select::{StrandedOf, choose_devices};
use crate::units::DeviceMask;

/// Carries the plan out on the board, reads it off, and undoes it.
pub(super) fn assemble(
    board: &mut Board,
    scene: &Scene<'_>,
    group: &GroupPlan,
    stranded: &mut StrandedOf<'_>,
) -> Plan {
    let mark = board.mark();
    for &index in &group.requests {
        board.take(scene, index);
    }
    let mut touched: Vec<u32> = group.slots.clone();
    touched.sort_unstable();
    touched.dedup();
    let shape_of = |slot: u32| scene.cluster.shape(slot as usize);
    let before: i64 = touched.iter().map(|&slot| stranded(&shape_of(slot))).sum();
    let mut placements = place_members(board, scene, group, stranded);
    placements.sort_by_key(|placement| placement.member);
    let after: i64 = touched.iter().map(|&slot| stranded(&board.shape(scene, slot as usize))).sum();
    let mut victims: Vec<Victim> =
        board.evicted_since(mark).map(|index| victim(board, scene, index)).collect();
    for &slot in &touched {
        waited_for(board, scene, slot, &placements, &mut victims);
    }
    victims.sort_by_key(|victim| (scene.cluster.key(victim.node.index as usize), victim.uid));
    let plan = Plan {
        placements,
        victims,
        cost: Cost { stranded_milli: after - before, ..board.cost },
        evicted_milli: board.evicted_milli,
        optimal: false,
        expansions: 0,
        runner_ups: Vec::new(),
        blocked: Vec::new(),
        guaranteed_pods: board.guaranteed_units,
        warnings: board.warnings.clone(),
    };
    board.undo(scene, mark);
    plan
}

/// Largest members first, as they were planned.
fn place_members(
    board: &mut Board,
    scene: &Scene<'_>,
    group: &GroupPlan,
    stranded: &mut StrandedOf<'_>,
) -> Vec<Placement> {
    let mut order: Vec<usize> = (0..scene.members.len()).collect();
    order.sort_by_key(|&member| {
        let request = &scene.members[member];
        let size = (request.gpu.total_milli(), request.cpu, request.memory);
        (std::cmp::Reverse(size), request.models, member)
    });
    let alone = scene.members.len() == 1;
    order
        .into_iter()
        .map(|member| {
            let (slot, request) = (group.slots[member], &scene.members[member]);
            let shape = board.shape(scene, slot as usize);
            let chosen = if alone {
                choose_devices(&shape, request, stranded)
            } else {
                // Group search packed shares tightest first; another order might not fit.
                choose_devices(&shape, request, &mut |_| 0)
            };
            let devices = chosen.map_or(DeviceMask::EMPTY, |(devices, _)| devices);
            debug_assert!(board.check(scene, slot as usize, request).is_ok());
            board.place(slot, devices, request);
            let node = scene.cluster.node_ref(slot as usize);
            Placement { member: member as u32, node, devices }
        })
        .collect()
}

fn victim(board: &Board, scene: &Scene<'_>, index: u32) -> Victim {
    let piece = &board.pieces[index as usize];
    let kind = if piece.gang == super::NONE {
        UnitKind::Pod
    } else if board.is_core(index) {
        UnitKind::Gang
    } else {
        UnitKind::Surplus
    };
    Victim {
        uid: scene.record(piece).uid,
        node: scene.cluster.node_ref(piece.slot as usize),
        kind,
        gang: piece.gang,
        tier1: piece.role == Role::Victim { tier1: true },
        milli: piece.milli,
        lost_milli_gpu_seconds: piece.lost,
    }
}

/// Terminating pods of a slot that the placed members cannot do without.
fn waited_for(
    board: &Board,
    scene: &Scene<'_>,
    slot: u32,
    placements: &[Placement],
    victims: &mut Vec<Victim>,
) {
    let used = placements
        .iter()
        .filter(|placement| placement.node.index == slot)
        .fold(0, |mask, placement| mask | placement.devices.0);
    let state = &board.slots[slot as usize];
    let (mut cpu, mut memory) = (state.cpu, state.memory);
    for index in board.on_slot(slot as usize) {
        let piece = &board.pieces[index as usize];
        if piece.role != Role::Leaving {
            continue;
        }
        let holds_card = piece.devices.0 & used != 0 || (piece.unknown && used != 0);
        let without = cpu >= piece.cpu && memory >= piece.memory;
        if !holds_card && without {
            cpu -= piece.cpu;
            memory -= piece.memory;
            continue;
        }
        let record = scene.record(piece);
        victims.push(Victim {
            uid: record.uid,
            node: scene.cluster.node_ref(slot as usize),
            kind: UnitKind::Terminating,
            gang: super::NONE,
            tier1: false,
            milli: piece.milli,
            lost_milli_gpu_seconds: 0,
        });
    }
}
