//! The running pods as a plan sees them: who may go at what loss, what is free once they went; every step can be undone.
//!
//! `layout` sets the board up, `room` reads what is free; the moves and their way back are here.

mod layout;
mod room;

use super::cost::Cost;
use super::plan::Warning;
use super::scene::{Role, Scene};
use super::tables::{NONE, Tables};
use super::units::Guaranteed;
use crate::limits::MAX_GPUS_PER_NODE;
use crate::request::PodRequest;
use crate::units::DeviceMask;

/// A pod on the board.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) slot: u32,
    /// Position in the slot's pods.
    pub(super) position: u32,
    pub(super) facts: u32,
    pub(super) gang: u32,
    pub(super) role: Role,
    pub(super) gone: bool,
    pub(super) unknown: bool,
    pub(super) devices: DeviceMask,
    pub(super) card_milli: u16,
    pub(super) milli: u32,
    pub(super) cpu: i64,
    pub(super) memory: i64,
    pub(super) lost: i64,
}

/// A gang's running members.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Crew {
    first: u32,
    count: u32,
    /// Members that may go alone.
    pub(super) surplus: u32,
    /// Of those, taken.
    singles: u32,
    /// Every member may be evicted.
    pub(super) whole_ok: bool,
    tier1: bool,
    lost: i64,
}

/// A node on the board.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) first: u32,
    pub(super) count: u32,
    pub(super) gpu_count: u8,
    /// Some pod holds cards of unknown identity: levels are derived anew each time.
    unknown: bool,
    capacity: [u16; MAX_GPUS_PER_NODE],
    held: [u32; MAX_GPUS_PER_NODE],
    pub(super) cpu: i64,
    pub(super) memory: i64,
}

/// A point to return to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    len: usize,
    cost: Cost,
    evicted_milli: u64,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Plain(u32),
    Surplus(u32),
    Core(u32),
    Place { slot: u32, devices: DeviceMask, milli: u16, cpu: i64, memory: i64 },
}

/// The state of a search.
#[derive(Debug, Default)]
pub(super) struct Board {
    pub(super) pieces: Vec<Piece>,
    pub(super) slots: Vec<Slot>,
    pub(super) crews: Vec<Crew>,
    members: Vec<u32>,
    budgets_taken: Vec<u32>,
    trail: Vec<Step>,
    pub(super) cost: Cost,
    pub(super) evicted_milli: u64,
    pub(super) warnings: Vec<Warning>,
    guaranteed: Vec<Guaranteed>,
    pub(super) guaranteed_units: u32,
}

impl Board {
    fn crew_range(&self, gang: usize) -> std::ops::Range<usize> {
        let crew = &self.crews[gang];
        crew.first as usize..(crew.first + crew.count) as usize
    }

    /// Pieces of a gang in board order.
    pub(super) fn crew_members(&self, gang: usize) -> impl Iterator<Item = u32> + '_ {
        self.members[self.crew_range(gang)].iter().copied()
    }

    /// Pieces of a slot.
    pub(super) fn on_slot(&self, slot: usize) -> std::ops::Range<u32> {
        let slot = &self.slots[slot];
        slot.first..slot.first + slot.count
    }

    /// Whether the piece may be asked to go, alone or with its gang.
    pub(super) fn may_go(&self, index: u32) -> bool {
        let piece = &self.pieces[index as usize];
        let Role::Victim { .. } = piece.role else { return false };
        piece.gang == NONE || {
            let crew = &self.crews[piece.gang as usize];
            crew.whole_ok || crew.surplus > crew.singles
        }
    }

    /// Where to return to with [`Board::undo`].
    pub(super) fn mark(&self) -> Mark {
        Mark { len: self.trail.len(), cost: self.cost, evicted_milli: self.evicted_milli }
    }

    /// Evicts a pod: alone, as one surplus member, or with its whole gang. False when it may not go or a bound would be
    /// exceeded; the caller undoes to its mark then.
    pub(super) fn take(&mut self, scene: &Scene<'_>, index: u32) -> bool {
        let piece = self.pieces[index as usize];
        if piece.gone {
            return true;
        }
        let Role::Victim { tier1 } = piece.role else { return false };
        if piece.gang == NONE {
            self.count_unit(tier1);
            self.evict(scene, index, Step::Plain(index));
        } else {
            let crew = &mut self.crews[piece.gang as usize];
            if crew.singles < crew.surplus {
                crew.singles += 1;
                self.count_unit(tier1);
                self.evict(scene, index, Step::Surplus(index));
            } else if crew.whole_ok {
                let tier1 = crew.tier1;
                self.count_unit(tier1);
                for at in self.crew_range(piece.gang as usize) {
                    let member = self.members[at];
                    if !self.pieces[member as usize].gone {
                        self.evict(scene, member, Step::Core(member));
                    }
                }
            } else {
                return false;
            }
        }
        self.evicted_milli <= scene.bounds.evicted_milli
            && !(scene.bounds.hard_budgets && self.cost.budget_violations > 0)
    }

    fn count_unit(&mut self, tier1: bool) {
        self.cost.units += 1;
        self.cost.tier1_units += u32::from(tier1);
    }

    fn evict(&mut self, scene: &Scene<'_>, index: u32, step: Step) {
        let piece = &mut self.pieces[index as usize];
        piece.gone = true;
        let slot = &mut self.slots[piece.slot as usize];
        for device in piece.devices.iter() {
            slot.held[device] -= u32::from(piece.card_milli);
        }
        slot.cpu += piece.cpu;
        slot.memory += piece.memory;
        let lost = &mut self.cost.lost_milli_gpu_seconds;
        *lost = lost.saturating_add(piece.lost);
        self.evicted_milli += u64::from(piece.milli);
        for &budget in budget_refs(scene.tables, piece.facts) {
            let taken = &mut self.budgets_taken[budget as usize];
            *taken += 1;
            self.cost.budget_violations +=
                u32::from(*taken > scene.tables.budgets[budget as usize].allowed);
        }
        self.trail.push(step);
    }

    /// Puts a member of the group on devices of a slot.
    pub(super) fn place(&mut self, slot: u32, devices: DeviceMask, request: &PodRequest) {
        let (milli, cpu, memory) = (request.gpu.milli().get(), request.cpu.0, request.memory.0);
        self.trail.push(Step::Place { slot, devices, milli, cpu, memory });
        self.hold(slot, devices, milli, cpu, memory);
    }

    fn hold(&mut self, slot: u32, devices: DeviceMask, milli: u16, cpu: i64, memory: i64) {
        let slot = &mut self.slots[slot as usize];
        for device in devices.iter() {
            slot.held[device] += u32::from(milli);
        }
        slot.cpu -= cpu;
        slot.memory -= memory;
    }

    /// Back to a mark.
    pub(super) fn undo(&mut self, scene: &Scene<'_>, mark: Mark) {
        while self.trail.len() > mark.len {
            let Some(step) = self.trail.pop() else { break };
            let index = match step {
                Step::Place { slot, devices, milli, cpu, memory } => {
                    let slot = &mut self.slots[slot as usize];
                    for device in devices.iter() {
                        slot.held[device] -= u32::from(milli);
                    }
                    slot.cpu += cpu;
                    slot.memory += memory;
                    continue;
                }
                Step::Surplus(index) => {
                    let gang = self.pieces[index as usize].gang;
                    self.crews[gang as usize].singles -= 1;
                    index
                }
                Step::Plain(index) | Step::Core(index) => index,
            };
            let piece = &mut self.pieces[index as usize];
            piece.gone = false;
            let slot = &mut self.slots[piece.slot as usize];
            for device in piece.devices.iter() {
                slot.held[device] += u32::from(piece.card_milli);
            }
            slot.cpu -= piece.cpu;
            slot.memory -= piece.memory;
            for &budget in budget_refs(scene.tables, piece.facts) {
                self.budgets_taken[budget as usize] -= 1;
            }
        }
        self.cost = mark.cost;
        self.evicted_milli = mark.evicted_milli;
    }

    /// Pods evicted since a mark, with the first of each unit marked true.
    pub(super) fn evicted_since(&self, mark: Mark) -> impl Iterator<Item = u32> + '_ {
        self.trail[mark.len..].iter().filter_map(|step| match *step {
            Step::Plain(index) | Step::Surplus(index) | Step::Core(index) => Some(index),
            Step::Place { .. } => None,
        })
    }

    /// Whether an evicted pod went as part of a gang's core.
    pub(super) fn is_core(&self, index: u32) -> bool {
        self.trail.iter().any(|step| matches!(*step, Step::Core(core) if core == index))
    }
}

fn budget_refs(tables: &Tables, facts: u32) -> &[u32] {
    if tables.budget_refs.is_empty() {
        return &[];
    }
    match tables.pods.get(facts as usize) {
        Some(facts) if facts.budget_count > 0 => {
            let first = facts.first_budget as usize;
            &tables.budget_refs[first..first + facts.budget_count as usize]
        }
        _ => &[],
    }
}
