//! From the cluster to the board: pieces, what each would lose, gangs, the progress guarantee.

use super::super::cost::{Cost, checkpoint, lost_milli_gpu_seconds};
use super::super::plan::Warning;
use super::super::scene::{Role, Scene};
use super::super::tables::{Disruption, NONE};
use super::super::units::{Guaranteed, grant_guarantees};
use super::{Board, Crew, Piece, Slot};
use crate::cluster::PodRecord;
use crate::limits::MAX_GPUS_PER_NODE;
use crate::units::{MilliGpu, Tier};

impl Board {
    /// Lays the cluster out. Terminating pods are gone from the start.
    pub(in super::super) fn set_up(&mut self, scene: &Scene<'_>) {
        self.pieces.clear();
        self.slots.clear();
        self.trail.clear();
        self.warnings.clear();
        self.guaranteed.clear();
        self.cost = Cost::default();
        self.evicted_milli = 0;
        self.guaranteed_units = 0;
        self.budgets_taken.clear();
        self.budgets_taken.resize(scene.tables.budgets.len(), 0);
        self.crews.clear();
        self.crews.resize(scene.tables.gangs.len(), Crew::default());
        for slot in 0..scene.cluster.slots() {
            self.lay_slot(scene, slot);
        }
        self.list_members();
        self.weigh_gangs(scene);
        self.guard_unsaved(scene);
        self.judge_gangs(scene);
    }

    fn lay_slot(&mut self, scene: &Scene<'_>, index: usize) {
        let cluster = scene.cluster;
        let first = self.pieces.len() as u32;
        let gpu_count = cluster.gpu_count(index);
        let mut slot = Slot {
            first,
            count: 0,
            gpu_count,
            unknown: false,
            capacity: cluster.capacity(index).map(MilliGpu::get),
            held: [0; MAX_GPUS_PER_NODE],
            cpu: cluster.cpu_free(index).0,
            memory: cluster.memory_free(index).0,
        };
        for (position, record) in cluster.pods(index).iter().enumerate() {
            let facts = scene.tables.find(record.uid, self.pieces.len());
            let known = facts.map(|index| &scene.tables.pods[index]);
            let mut piece = Piece {
                slot: index as u32,
                position: position as u32,
                facts: facts.map_or(NONE, |index| index as u32),
                gang: known.map_or(NONE, |facts| facts.gang),
                role: scene.role(record, known),
                gone: false,
                unknown: record.unknown > 0,
                devices: record.devices,
                card_milli: record.gpu.milli().get(),
                milli: record.gpu.total_milli(),
                cpu: record.cpu.0,
                memory: record.memory.0,
                lost: 0,
            };
            slot.unknown |= piece.unknown;
            match piece.role {
                Role::Leaving | Role::Yielding => {
                    piece.gone = true;
                    piece.gang = NONE;
                    slot.cpu += piece.cpu;
                    slot.memory += piece.memory;
                }
                Role::Fixed | Role::Victim { .. } => {
                    for device in piece.devices.iter() {
                        slot.held[device] += u32::from(piece.card_milli);
                    }
                    if piece.gang != NONE {
                        self.crews[piece.gang as usize].count += 1;
                    }
                    if let Role::Victim { .. } = piece.role {
                        self.weigh(scene, record, &mut piece);
                    }
                }
            }
            self.pieces.push(piece);
        }
        slot.count = self.pieces.len() as u32 - first;
        self.slots.push(slot);
    }

    fn weigh(&mut self, scene: &Scene<'_>, record: &PodRecord, piece: &mut Piece) {
        let saved = checkpoint(record, scene.now_seconds).unwrap_or_else(|fault| {
            self.warnings.push(Warning { uid: record.uid, fault });
            None
        });
        let facts = scene.facts(piece);
        piece.lost = lost_milli_gpu_seconds(record, saved, &facts, scene.now_seconds);
        let policy = scene.policy;
        let evicted =
            policy.guarantee_after > 0 && facts.unsaved_evictions >= policy.guarantee_after;
        let much = piece.lost >= policy.guarantee_lost_milli_gpu_seconds;
        let due = saved.is_none() && (evicted || much);
        if due && record.tier == Tier::Batch {
            self.guaranteed.push(Guaranteed {
                tenant: facts.tenant,
                evictions: facts.unsaved_evictions,
                start_seconds: record.start_seconds,
                uid: record.uid,
                gang: piece.gang,
                milli: u64::from(piece.milli),
                piece: self.pieces.len() as u32,
            });
        }
    }

    /// Sorts the members of gangs together, in board order.
    fn list_members(&mut self) {
        let mut next = 0;
        for crew in &mut self.crews {
            crew.first = next;
            next += crew.count;
            crew.count = 0;
        }
        self.members.clear();
        if next == 0 {
            return;
        }
        self.members.resize(next as usize, 0);
        for (index, piece) in self.pieces.iter().enumerate() {
            if piece.gang != NONE {
                let crew = &mut self.crews[piece.gang as usize];
                self.members[(crew.first + crew.count) as usize] = index as u32;
                crew.count += 1;
            }
        }
    }

    /// A gang resumes from the newest checkpoint any member published.
    fn weigh_gangs(&mut self, scene: &Scene<'_>) {
        for gang in 0..self.crews.len() {
            let newest = self
                .crew_members(gang)
                .filter_map(|member| {
                    let record = scene.record(&self.pieces[member as usize]);
                    checkpoint(record, scene.now_seconds).ok().flatten()
                })
                .max();
            let Some(newest) = newest else { continue };
            for at in self.crew_range(gang) {
                let index = self.members[at] as usize;
                let piece = self.pieces[index];
                if let Role::Victim { .. } = piece.role {
                    let facts = scene.facts(&piece);
                    self.pieces[index].lost = lost_milli_gpu_seconds(
                        scene.record(&piece),
                        Some(newest),
                        &facts,
                        scene.now_seconds,
                    );
                }
            }
            self.guaranteed.retain(|job| job.gang as usize != gang);
        }
    }

    /// Jobs under the progress guarantee count as tier 1: for a training preemptor they are no victims at all.
    fn guard_unsaved(&mut self, scene: &Scene<'_>) {
        if self.guaranteed.is_empty() {
            return;
        }
        let mut jobs = std::mem::take(&mut self.guaranteed);
        self.guaranteed_units = grant_guarantees(&mut jobs, scene.tables, scene.policy);
        for job in &jobs {
            self.pieces[job.piece as usize].role = match scene.tier {
                Tier::Inference => Role::Victim { tier1: true },
                _ => Role::Fixed,
            };
        }
        self.guaranteed = jobs;
    }

    fn judge_gangs(&mut self, scene: &Scene<'_>) {
        for gang in 0..self.crews.len() {
            let rule = scene.tables.gangs[gang];
            let mut judged = self.crews[gang];
            judged.surplus = match rule.disruption {
                Disruption::All => 0,
                Disruption::Single => judged.count.saturating_sub(rule.min_members),
            };
            judged.whole_ok = true;
            for member in self.crew_members(gang) {
                let piece = &self.pieces[member as usize];
                match piece.role {
                    Role::Victim { tier1 } => judged.tier1 |= tier1,
                    _ => judged.whole_ok = false,
                }
                judged.lost = judged.lost.saturating_add(piece.lost);
            }
            self.crews[gang] = judged;
        }
    }
}
