//! The cluster as struct of arrays, indexed by slot. Written by [`Cluster::sync`] only.

mod change_log;
mod check;
mod delta;
mod dump;
mod levels;
mod load;
mod mig;
mod models;
mod pod;
mod reader;
mod scratch;
mod slots;
mod view;

use std::collections::HashMap;

pub use delta::{NodeDelta, SyncBatch, SyncReport};
pub use levels::{DeviceLevels, POD_CLASSES, pod_class};
pub(crate) use mig::MigCensus;
pub use mig::{MigCard, MigCards, MigNode};
pub use models::ModelTable;
pub use pod::PodRecord;
pub use view::{FreeShape, NodeView};

use change_log::ChangeLog;
pub(crate) use levels::derive;
pub(crate) use reader::Reader;
use scratch::Scratch;

use crate::error::Error;
use crate::hash::MixBuild;
use crate::limits::MAX_GPUS_PER_NODE;
use crate::units::{
    Generation, MemoryBytes, MilliCpu, MilliGpu, ModelId, NodeKey, NodeRef, PodUid, Priority,
};

/// Nodes and the pods on them.
#[derive(Debug, Clone)]
pub struct Cluster {
    models: ModelTable,
    slot_of: HashMap<NodeKey, u32, MixBuild>,
    vacant: Vec<u32>,
    /// Slots with at least one reservation, rising.
    reserved: Vec<u32>,
    changes: ChangeLog,
    scratch: Scratch,
    totals: ClusterTotals,
    census: MigCensus,
    // One entry per slot from here on.
    live: Vec<bool>,
    slot_generation: Vec<u32>,
    key: Vec<NodeKey>,
    generation: Vec<Generation>,
    /// Number of the change that made the slot what it is.
    version: Vec<u64>,
    content: Vec<Content>,
    free: Vec<DeviceLevels>,
    /// Free for decisions: what the caller reported minus reservations.
    cpu_free: Vec<MilliCpu>,
    memory_free: Vec<MemoryBytes>,
    idle_milli: Vec<u32>,
    overcommitted_milli: Vec<u32>,
    classes: Vec<[u16; POD_CLASSES]>,
    /// Only of nodes with cards in MIG mode.
    mig: Vec<Option<Box<MigNode>>>,
    pods: Vec<Vec<PodRecord>>,
}

/// Sums over all nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClusterTotals {
    /// Pod records.
    pub pods: u64,
    /// Milli-GPU of all devices.
    pub capacity_milli: u64,
    /// Milli-GPU that no pod holds.
    pub idle_milli: u64,
    /// Milli-GPU that pods hold beyond the capacity of their devices.
    pub overcommitted_milli: u64,
}

impl ClusterTotals {
    fn shift(&mut self, from: (u64, u32, u32), to: (u64, u32, u32)) {
        self.capacity_milli = self.capacity_milli - from.0 + to.0;
        self.idle_milli = self.idle_milli - u64::from(from.1) + u64::from(to.1);
        self.overcommitted_milli = self.overcommitted_milli - u64::from(from.2) + u64::from(to.2);
    }
}

/// A node as the caller described it, apart from its pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) cpu_reported: MilliCpu,
    pub(crate) memory_reported: MemoryBytes,
    pub(crate) cpu_allocatable: MilliCpu,
    pub(crate) memory_allocatable: MemoryBytes,
    pub(crate) model: ModelId,
    pub(crate) gpu_count: u8,
    pub(crate) shares_offered: bool,
    pub(crate) capacity: DeviceLevels,
}

impl Content {
    const VACANT: Self = Self {
        cpu_reported: MilliCpu(0),
        memory_reported: MemoryBytes(0),
        cpu_allocatable: MilliCpu(0),
        memory_allocatable: MemoryBytes(0),
        model: ModelId::NONE,
        gpu_count: 0,
        shares_offered: false,
        capacity: [MilliGpu::ZERO; MAX_GPUS_PER_NODE],
    };

    fn capacity_milli(&self) -> u64 {
        self.capacity.iter().map(|capacity| u64::from(capacity.get())).sum()
    }

    fn of(delta: &NodeDelta) -> Self {
        Self {
            cpu_reported: delta.cpu_free,
            memory_reported: delta.memory_free,
            cpu_allocatable: delta.cpu_allocatable,
            memory_allocatable: delta.memory_allocatable,
            model: delta.model,
            gpu_count: delta.gpu_count,
            shares_offered: delta.shares_offered,
            capacity: delta.capacity,
        }
    }
}

impl Default for Cluster {
    fn default() -> Self {
        Self::new()
    }
}

impl Cluster {
    /// A cluster without nodes.
    #[must_use]
    pub fn new() -> Self {
        Self {
            models: ModelTable::default(),
            slot_of: HashMap::default(),
            vacant: Vec::new(),
            reserved: Vec::new(),
            changes: ChangeLog::new(),
            scratch: Scratch::default(),
            totals: ClusterTotals::default(),
            census: MigCensus::default(),
            live: Vec::new(),
            slot_generation: Vec::new(),
            key: Vec::new(),
            generation: Vec::new(),
            version: Vec::new(),
            content: Vec::new(),
            free: Vec::new(),
            cpu_free: Vec::new(),
            memory_free: Vec::new(),
            idle_milli: Vec::new(),
            overcommitted_milli: Vec::new(),
            classes: Vec::new(),
            mig: Vec::new(),
            pods: Vec::new(),
        }
    }

    /// Number of nodes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slot_of.len()
    }

    /// No nodes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slot_of.is_empty()
    }

    /// Number of slots, vacant ones included; [`NodeRef::index`] is below it.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.live.len()
    }

    /// Sums over all nodes.
    #[must_use]
    pub fn totals(&self) -> ClusterTotals {
        self.totals
    }

    /// The models seen so far.
    #[must_use]
    pub fn models(&self) -> &ModelTable {
        &self.models
    }

    pub(crate) fn models_mut(&mut self) -> &mut ModelTable {
        &mut self.models
    }

    /// Number of the newest change a decision can see.
    #[must_use]
    pub fn last_change(&self) -> u64 {
        self.changes.last()
    }

    /// Slots changed after change number `seen`, each once; `None` when that is too long ago: then look at every slot
    /// whose [`version`](Self::version) is above `seen`.
    pub fn changed_since(&self, seen: u64) -> Option<impl Iterator<Item = u32> + '_> {
        let changes = self.changes.since(seen)?;
        // Of several changes of a slot the one that is its version stands for all.
        Some(
            changes
                .filter(|&(number, slot)| self.version[slot as usize] == number)
                .map(|(_, slot)| slot),
        )
    }

    /// Number of the change that made the slot what it is.
    #[inline]
    #[must_use]
    pub fn version(&self, slot: usize) -> u64 {
        self.version[slot]
    }

    /// Whether the slot holds a node.
    #[inline]
    #[must_use]
    pub fn is_live(&self, slot: usize) -> bool {
        self.live[slot]
    }

    /// The reference to the node in a live slot.
    #[must_use]
    pub fn node_ref(&self, slot: usize) -> NodeRef {
        NodeRef { index: slot as u32, generation: self.slot_generation[slot] }
    }

    /// The reference to the node of this key.
    #[must_use]
    pub fn find(&self, key: NodeKey) -> Option<NodeRef> {
        self.slot_of.get(&key).map(|&slot| self.node_ref(slot as usize))
    }

    /// Live nodes in slot order.
    pub fn nodes(&self) -> impl Iterator<Item = NodeRef> + '_ {
        (0..self.slots()).filter(|&slot| self.live[slot]).map(|slot| self.node_ref(slot))
    }

    /// The caller's key of a slot's node.
    #[inline]
    #[must_use]
    pub fn key(&self, slot: usize) -> NodeKey {
        self.key[slot]
    }

    /// The caller's keys per slot; those of vacant slots mean nothing.
    #[inline]
    #[must_use]
    pub fn key_column(&self) -> &[NodeKey] {
        &self.key
    }

    /// The caller's generation of a slot's node.
    #[must_use]
    pub fn generation(&self, slot: usize) -> Generation {
        self.generation[slot]
    }

    /// Free CPU and GPU of a slot.
    #[inline]
    #[must_use]
    pub fn shape(&self, slot: usize) -> FreeShape {
        let content = &self.content[slot];
        FreeShape {
            model: content.model,
            gpu_count: content.gpu_count,
            free: self.free[slot],
            cpu_free: self.cpu_free[slot],
        }
    }

    /// Free memory of a slot.
    #[inline]
    #[must_use]
    pub fn memory_free(&self, slot: usize) -> MemoryBytes {
        self.memory_free[slot]
    }

    /// Free memory per slot; vacant slots have none.
    #[inline]
    #[must_use]
    pub fn memory_column(&self) -> &[MemoryBytes] {
        &self.memory_free
    }

    /// Whether the node takes shares of a card.
    #[inline]
    #[must_use]
    pub fn shares_offered(&self, slot: usize) -> bool {
        self.content[slot].shares_offered
    }

    /// Free CPU of a slot; reservations are held.
    #[inline]
    #[must_use]
    pub fn cpu_free(&self, slot: usize) -> MilliCpu {
        self.cpu_free[slot]
    }

    /// Number of devices of a slot.
    #[inline]
    #[must_use]
    pub fn gpu_count(&self, slot: usize) -> u8 {
        self.content[slot].gpu_count
    }

    /// GPU model of a slot.
    #[inline]
    #[must_use]
    pub fn model(&self, slot: usize) -> ModelId {
        self.content[slot].model
    }

    /// Size of each device of a slot.
    #[inline]
    #[must_use]
    pub fn capacity(&self, slot: usize) -> &DeviceLevels {
        &self.content[slot].capacity
    }

    /// Idle milli-GPU of a slot.
    #[must_use]
    pub fn idle_milli(&self, slot: usize) -> u32 {
        self.idle_milli[slot]
    }

    /// Milli-GPU that pods of a slot hold beyond its devices' capacity.
    #[must_use]
    pub fn overcommitted_milli(&self, slot: usize) -> u32 {
        self.overcommitted_milli[slot]
    }

    /// The pods of a slot in uid order.
    #[must_use]
    pub fn pods(&self, slot: usize) -> &[PodRecord] {
        &self.pods[slot]
    }

    /// A slot with every reservation held.
    #[inline]
    #[must_use]
    pub fn view(&self, slot: usize) -> NodeView {
        let content = &self.content[slot];
        NodeView {
            key: self.key[slot],
            shape: self.shape(slot),
            memory_free: self.memory_free[slot],
            cpu_allocatable: content.cpu_allocatable,
            memory_allocatable: content.memory_allocatable,
            shares_offered: content.shares_offered,
            classes: self.classes[slot],
            capacity: content.capacity,
        }
    }

    /// A slot as one pod sees it: without reservations that yield to it.
    #[must_use]
    pub fn view_for(&self, slot: usize, uid: PodUid, priority: Priority) -> NodeView {
        if !self.yields_to(slot, uid, priority) {
            return self.view(slot);
        }
        let content = &self.content[slot];
        let held = self.pods[slot].iter().filter(|pod| pod.holds_against(uid, priority));
        let derived = derive(&content.capacity, content.gpu_count, held);
        let mut view = self.view(slot);
        view.shape.free = derived.free;
        view.shape.cpu_free = MilliCpu(content.cpu_reported.0 - derived.reserved_cpu);
        view.memory_free = MemoryBytes(content.memory_reported.0 - derived.reserved_memory);
        view.classes = derived.classes;
        view
    }

    /// Whether the slot has a reservation that does not hold against this pod.
    #[must_use]
    pub fn yields_to(&self, slot: usize, uid: PodUid, priority: Priority) -> bool {
        self.pods[slot].iter().any(|pod| !pod.holds_against(uid, priority))
    }

    /// Slots that hold at least one reservation, rising.
    #[must_use]
    pub fn reserved_slots(&self) -> &[u32] {
        &self.reserved
    }

    /// The slot of a reference.
    ///
    /// # Errors
    /// [`Error::UnknownNode`] or [`Error::StaleNode`]; `what` names where the reference stood.
    pub fn check_ref(&self, node: NodeRef, what: impl FnOnce() -> String) -> Result<u32, Error> {
        let current = self.slot_generation.get(node.index as usize).copied().unwrap_or(0);
        if current == node.generation && !node.is_nil() && self.live[node.index as usize] {
            return Ok(node.index);
        }
        if node.is_nil() || node.generation > current {
            return Err(Error::UnknownNode { what: what(), node });
        }
        Err(Error::StaleNode { what: what(), node, current })
    }
}
