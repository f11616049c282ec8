//! The running pods as a plan sees them: who may go at what loss, what is free once they went; every step can be undone.

use super::cost::{Cost, checkpoint, lost_milli_gpu_seconds};
use super::plan::Warning;
use super::policy::{Policy, yields};
use super::tables::{Disruption, NONE, PodFacts, Tables};
use super::units::{Guaranteed, grant_guarantees};
use crate::cluster::{Cluster, FreeShape, PodRecord, derive};
use crate::filter;
use crate::limits::MAX_GPUS_PER_NODE;
use crate::request::{GpuRequest, PodRequest};
use crate::units::{DeviceMask, MemoryBytes, MilliCpu, MilliGpu, PodUid, Priority, Tier};

/// What may happen to a pod.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    /// Stays.
    Fixed,
    /// Is being deleted: counted as gone from the start.
    Leaving,
    /// A reservation that yields to the preemptor: not there.
    Yielding,
    /// May be evicted.
    Victim {
        /// Counts as tier 1.
        tier1: bool,
    },
}

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

/// What a plan may not exceed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) hard_budgets: bool,
    pub(super) evicted_milli: u64,
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

/// What a board is set up from.
#[derive(Clone, Copy)]
pub(super) struct Scene<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) tables: &'a Tables,
    pub(super) policy: &'a Policy,
    pub(super) now_seconds: i64,
    pub(super) tier: Tier,
    pub(super) priority: Priority,
    pub(super) members: &'a [PodRequest],
    pub(super) bounds: Bounds,
}

impl Scene<'_> {
    pub(super) fn record(&self, piece: &Piece) -> &PodRecord {
        &self.cluster.pods(piece.slot as usize)[piece.position as usize]
    }

    pub(super) fn facts(&self, piece: &Piece) -> PodFacts {
        match self.tables.pods.get(piece.facts as usize) {
            Some(facts) => *facts,
            None => PodFacts {
                restart_seconds: self.policy.restart_seconds,
                grace_seconds: self.policy.grace_seconds,
                ..PodFacts::new(PodUid(0))
            },
        }
    }

    fn role(&self, record: &PodRecord, facts: Option<&PodFacts>) -> Role {
        if record.reservation {
            let held = match self.members {
                [one] => record.holds_against(one.uid, self.priority),
                many => many.iter().all(|m| record.holds_against(m.uid, self.priority)),
            };
            return if held { Role::Fixed } else { Role::Yielding };
        }
        if record.terminating {
            return Role::Leaving;
        }
        let consent = !record.foreign || facts.is_some_and(|facts| facts.consent);
        if consent && yields((record.tier, record.priority), (self.tier, self.priority)) {
            Role::Victim { tier1: record.tier == Tier::Training }
        } else {
            Role::Fixed
        }
    }
}

impl Board {
    /// Lays the cluster out. Terminating pods are gone from the start.
    pub(super) fn set_up(&mut self, scene: &Scene<'_>) {
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
        if let Some(facts) = scene.tables.pods.get(piece.facts as usize) {
            for &budget in budget_refs(scene.tables, facts) {
                let taken = &mut self.budgets_taken[budget as usize];
                *taken += 1;
                self.cost.budget_violations +=
                    u32::from(*taken > scene.tables.budgets[budget as usize].allowed);
            }
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
            if let Some(facts) = scene.tables.pods.get(piece.facts as usize) {
                for &budget in budget_refs(scene.tables, facts) {
                    self.budgets_taken[budget as usize] -= 1;
                }
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

    /// Free milli-GPU per device.
    pub(super) fn levels(&self, scene: &Scene<'_>, index: usize) -> [u16; MAX_GPUS_PER_NODE] {
        let slot = &self.slots[index];
        if slot.unknown {
            return self.derived_levels(scene, index);
        }
        self.levels_without(index, &[0; MAX_GPUS_PER_NODE])
    }

    fn derived_levels(&self, scene: &Scene<'_>, index: usize) -> [u16; MAX_GPUS_PER_NODE] {
        let slot = &self.slots[index];
        let first = slot.first as usize;
        let mut placed: Vec<PodRecord> = Vec::new();
        for step in &self.trail {
            if let Step::Place { slot, devices, milli, .. } = *step
                && slot as usize == index
                && let Ok(gpu) = GpuRequest::new(devices.count() as u16, milli)
            {
                placed.push(PodRecord::new(PodUid(0), gpu, devices));
            }
        }
        let there = scene
            .cluster
            .pods(index)
            .iter()
            .enumerate()
            .filter(|(position, _)| !self.pieces[first + position].gone)
            .map(|(_, record)| record)
            .chain(&placed);
        derive(scene.cluster.capacity(index), slot.gpu_count, there).free.map(MilliGpu::get)
    }

    /// Free levels if `removable` were taken off as well; for slots without unknown holders.
    pub(super) fn levels_without(
        &self,
        index: usize,
        removable: &[u32; MAX_GPUS_PER_NODE],
    ) -> [u16; MAX_GPUS_PER_NODE] {
        let slot = &self.slots[index];
        let mut levels = [0; MAX_GPUS_PER_NODE];
        for (device, level) in levels.iter_mut().enumerate() {
            let held = slot.held[device].saturating_sub(removable[device]);
            *level = u32::from(slot.capacity[device]).saturating_sub(held) as u16;
        }
        levels
    }

    /// A pod's part of what its unit costs, per card of the unit on this slot; tier-1 units in parts of `split`.
    pub(super) fn split_cost(&self, index: u32, tier1: bool, split: u32) -> (i64, u32) {
        let piece = &self.pieces[index as usize];
        let own = i64::from(piece.devices.count()).max(1);
        let alone = (piece.lost / own, u32::from(tier1) * split / own as u32);
        if piece.gang == NONE {
            return alone;
        }
        let crew = &self.crews[piece.gang as usize];
        let (mut cards, mut there) = (0, 0);
        for other in self.on_slot(piece.slot as usize) {
            let other = &self.pieces[other as usize];
            if other.gang == piece.gang && !other.gone {
                cards += i64::from(other.devices.count());
                there += 1;
            }
        }
        let spare = crew.surplus - crew.singles;
        if spare > 0 {
            return (alone.0, if there > spare { 0 } else { alone.1 });
        }
        let whole = if crew.singles == 0 { crew.lost / cards.max(1) } else { alone.0 };
        (whole, u32::from(crew.tier1) * split / cards.max(1) as u32)
    }

    /// Cards of the slot have unknown holders.
    pub(super) fn has_unknown(&self, slot: usize) -> bool {
        self.slots[slot].unknown
    }

    /// Whether the pod fits the slot as it is now. Model and offered shares are the caller's.
    #[inline]
    pub(super) fn fits(&self, scene: &Scene<'_>, index: usize, request: &PodRequest) -> bool {
        self.fits_gpu(scene, index, request) && self.fits_host(index, request)
    }

    pub(super) fn fits_gpu(&self, scene: &Scene<'_>, index: usize, request: &PodRequest) -> bool {
        match request.gpu {
            GpuRequest::None => true,
            GpuRequest::Whole { count } => {
                let levels = self.levels(scene, index);
                levels.iter().filter(|&&level| level == 1_000).count() >= usize::from(count)
            }
            GpuRequest::Share { milli } => {
                self.levels(scene, index).iter().any(|&level| level >= milli.get())
            }
        }
    }

    /// Whether CPU and memory suffice.
    pub(super) fn fits_host(&self, index: usize, request: &PodRequest) -> bool {
        let slot = &self.slots[index];
        (request.cpu.0 <= slot.cpu || request.cpu.0 == 0)
            && (request.memory.0 <= slot.memory || request.memory.0 == 0)
    }

    /// The slot's free shape as it is now.
    pub(super) fn shape(&self, scene: &Scene<'_>, index: usize) -> FreeShape {
        let mut shape = scene.cluster.shape(index);
        shape.free = self.levels(scene, index).map(|level| MilliGpu::clamped(i64::from(level)));
        shape.cpu_free = MilliCpu(self.slots[index].cpu);
        shape
    }

    /// The official filter's verdict on the slot as it is now.
    pub(super) fn check(
        &self,
        scene: &Scene<'_>,
        index: usize,
        request: &PodRequest,
    ) -> Result<(), filter::Unfit> {
        let mut view = scene.cluster.view(index);
        view.shape = self.shape(scene, index);
        view.memory_free = MemoryBytes(self.slots[index].memory);
        filter::check(&view, request)
    }
}

fn budget_refs<'t>(tables: &'t Tables, facts: &PodFacts) -> &'t [u32] {
    let first = facts.first_budget as usize;
    if facts.budget_count == 0 {
        return &[];
    }
    &tables.budget_refs[first..first + facts.budget_count as usize]
}
