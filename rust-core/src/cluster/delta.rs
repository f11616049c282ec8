//! Batches of node changes: validated whole, then applied.

use super::levels::{DeviceLevels, derive};
use super::pod::PodRecord;
use super::{Cluster, Content, MigCards};
use crate::error::Error;
use crate::limits::{
    MAX_GPUS_PER_NODE, MAX_MEMORY_BYTES, MAX_MILLI_CPU, MAX_NODES, MAX_PODS_PER_NODE,
};
use crate::request::PodRequest;
use crate::units::{
    Generation, MemoryBytes, MilliCpu, MilliGpu, ModelId, NodeKey, NodeRef, PodUid,
};

/// The whole content of one node; its pods stand in the batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeDelta {
    /// The node as sync returned it, or [`NodeRef::NIL`]: then the key decides whether it is new.
    pub node: NodeRef,
    /// Lasting identity; the same for every delta of this node.
    pub key: NodeKey,
    /// The caller's generation, given back on request.
    pub generation: Generation,
    /// CPU allocatable minus requested; may be negative.
    pub cpu_free: MilliCpu,
    /// Memory allocatable minus requested; may be negative.
    pub memory_free: MemoryBytes,
    /// CPU for pods.
    pub cpu_allocatable: MilliCpu,
    /// Memory for pods.
    pub memory_allocatable: MemoryBytes,
    /// An interned model, or [`ModelId::NONE`].
    pub model: ModelId,
    /// Number of devices, `0..=16`.
    pub gpu_count: u8,
    /// Size of each device: 1000, less for a device that is only partly ours, 0 for an unhealthy one.
    pub capacity: DeviceLevels,
    /// Whether the node takes shares of a card (enforced mode).
    pub shares_offered: bool,
    /// What each device offers of MIG; a device in MIG mode has a capacity of 0.
    pub mig: MigCards,
    /// Index of the node's first pod in [`SyncBatch::pods`].
    pub first_pod: u32,
    /// Number of its pods; they follow each other.
    pub pod_count: u32,
}

/// Changes to apply together.
#[derive(Clone, Copy, Debug, Default)]
pub struct SyncBatch<'a> {
    /// The upserts are all nodes there are: every other node is dropped.
    pub full: bool,
    /// New and changed nodes.
    pub upserts: &'a [NodeDelta],
    /// The pods of the upserts, in their order and without gaps.
    pub pods: &'a [PodRecord],
    /// Nodes that are gone.
    pub removals: &'a [NodeRef],
    /// A pod that arrived and counts in the learned mix (once per uid).
    pub arrival: Option<PodRequest>,
}

/// What a batch did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SyncReport {
    /// Nodes that are new.
    pub added: u32,
    /// Known nodes whose content changed in a way decisions can see.
    pub changed: u32,
    /// Known nodes that were the same as before.
    pub unchanged: u32,
    /// Nodes that are gone.
    pub removed: u32,
    /// The batch's arrival was a new sample of the mix.
    pub arrival_counted: bool,
}

const NEW: u32 = u32::MAX;

impl Cluster {
    /// Applies a batch and writes one reference per upsert.
    ///
    /// # Errors
    /// Any error leaves the cluster and `refs` as they were.
    pub fn sync(
        &mut self,
        batch: &SyncBatch<'_>,
        refs: &mut [NodeRef],
    ) -> Result<SyncReport, Error> {
        if refs.len() != batch.upserts.len() {
            return Err(Error::BadLength {
                what: "refs".into(),
                len: refs.len(),
                expected: format!("{}, one per upsert", batch.upserts.len()),
            });
        }
        self.validate_contents(batch)?;
        self.resolve(batch)?;
        self.assign_slots(batch)?;
        Ok(self.apply(batch, refs))
    }

    fn validate_contents(&self, batch: &SyncBatch<'_>) -> Result<(), Error> {
        if batch.upserts.len() > MAX_NODES {
            return Err(Error::limit(
                "number of upserts",
                batch.upserts.len() as i128,
                MAX_NODES as i128,
            ));
        }
        let mut next = 0usize;
        for (position, delta) in batch.upserts.iter().enumerate() {
            delta.validate(position, self.models.len())?;
            let (first, count) = (delta.first_pod as usize, delta.pod_count as usize);
            if count > 0 && first != next {
                return Err(Error::BadLength {
                    what: format!(
                        "upserts[{position}].first_pod of node {}: the range before it",
                        delta.key
                    ),
                    len: first,
                    expected: format!("{next}: the pods of the upserts follow each other"),
                });
            }
            let pods = batch.pods.get(next..next + count).ok_or_else(|| Error::BadLength {
                what: format!("pods from {next} on for upserts[{position}], node {},", delta.key),
                len: batch.pods.len() - next,
                expected: format!("at least {count}, its pod_count"),
            })?;
            for (offset, pod) in pods.iter().enumerate() {
                pod.validate(next + offset, delta)?;
            }
            check_unique_pods(pods, next, delta.key)?;
            next += count;
        }
        if next != batch.pods.len() {
            return Err(Error::BadLength {
                what: "pods".into(),
                len: batch.pods.len(),
                expected: format!("{next}, the sum of pod_count over the upserts"),
            });
        }
        Ok(())
    }

    /// Finds the slot of each upsert (or marks it as new) and the slots to drop, in `self.scratch`.
    fn resolve(&mut self, batch: &SyncBatch<'_>) -> Result<(), Error> {
        self.scratch.begin(self.slots(), batch)?;
        for (position, delta) in batch.upserts.iter().enumerate() {
            let known = if delta.node.is_nil() {
                self.slot_of.get(&delta.key).copied()
            } else {
                let slot = self.check_ref(delta.node, || format!("upserts[{position}].node"))?;
                let key = self.key[slot as usize];
                if key != delta.key {
                    return Err(Error::invalid(
                        format!("upserts[{position}].key of {}", delta.node),
                        delta.key,
                        format!("that node's key is {key}; a node keeps its key"),
                    ));
                }
                Some(slot)
            };
            let twice = match known {
                Some(slot) => !self.scratch.mark(slot),
                None => !self.scratch.new_keys.insert(delta.key),
            };
            if twice {
                return Err(Error::DuplicateNode {
                    what: format!("upserts[{position}]"),
                    key: delta.key,
                });
            }
            self.scratch.slots.push(known.unwrap_or(NEW));
        }
        for (position, &node) in batch.removals.iter().enumerate() {
            let slot = self.check_ref(node, || format!("removals[{position}]"))?;
            if !self.scratch.mark(slot) {
                return Err(Error::DuplicateNode {
                    what: format!("removals[{position}]"),
                    key: self.key[slot as usize],
                });
            }
            self.scratch.dropped.push(slot);
        }
        if batch.full {
            for slot in 0..self.slots() as u32 {
                if self.live[slot as usize] && self.scratch.mark(slot) {
                    self.scratch.dropped.push(slot);
                }
            }
        }
        Ok(())
    }

    /// Gives new nodes their slots and reserves all memory that applying will need.
    fn assign_slots(&mut self, batch: &SyncBatch<'_>) -> Result<(), Error> {
        let added = self.scratch.new_keys.len();
        let after = self.len() + added - self.scratch.dropped.len();
        if after > MAX_NODES {
            return Err(Error::limit("number of nodes", after as i128, MAX_NODES as i128));
        }
        let reusable = self.vacant.len() + self.scratch.dropped.len();
        self.reserve_slots(added.saturating_sub(reusable), self.scratch.dropped.len(), added)?;
        let mut spare = self.vacant.iter().rev().chain(self.scratch.dropped.iter());
        let mut fresh = self.slots() as u32;
        for slot in self.scratch.slots.iter_mut().filter(|slot| **slot == NEW) {
            *slot = spare.next().copied().unwrap_or_else(|| {
                fresh += 1;
                fresh - 1
            });
        }
        while self.slots() < fresh as usize {
            self.push_vacant_slot();
        }
        for (delta, &slot) in batch.upserts.iter().zip(&self.scratch.slots) {
            let pods = &mut self.pods[slot as usize];
            let wanted = delta.pod_count as usize;
            pods.try_reserve(wanted.saturating_sub(pods.len())).map_err(|_| {
                Error::OutOfMemory { what: "pod records", bytes: wanted * size_of::<PodRecord>() }
            })?;
        }
        Ok(())
    }

    fn apply(&mut self, batch: &SyncBatch<'_>, refs: &mut [NodeRef]) -> SyncReport {
        let mut report = SyncReport::default();
        let scratch = std::mem::take(&mut self.scratch);
        for &slot in &scratch.dropped {
            self.clear_slot(slot);
            report.removed += 1;
        }
        for ((delta, &slot), node) in batch.upserts.iter().zip(&scratch.slots).zip(refs) {
            let index = slot as usize;
            let is_new = !self.live[index];
            if is_new {
                self.occupy_slot(slot, delta.key);
            }
            let first = delta.first_pod as usize;
            let pods = &batch.pods
                [if delta.pod_count == 0 { 0..0 } else { first..first + delta.pod_count as usize }];
            let changed = self.write_slot(slot, delta, pods);
            match (is_new, changed) {
                (true, _) => report.added += 1,
                (false, true) => report.changed += 1,
                (false, false) => report.unchanged += 1,
            }
            *node = NodeRef { index: slot, generation: self.slot_generation[index] };
        }
        if report.added > 0 {
            let live = &self.live;
            self.vacant.retain(|&slot| !live[slot as usize]);
        }
        self.scratch = scratch;
        report
    }

    /// Writes the content of an occupied slot; true when decisions can see a difference.
    fn write_slot(&mut self, slot: u32, delta: &NodeDelta, pods: &[PodRecord]) -> bool {
        let index = slot as usize;
        let held = &mut self.pods[index];
        self.totals.pods = self.totals.pods - held.len() as u64 + pods.len() as u64;
        held.clear();
        held.extend_from_slice(pods);
        if !held.is_sorted_by_key(|pod| pod.uid) {
            held.sort_unstable_by_key(|pod| pod.uid);
        }
        let reserved = held.iter().any(|pod| pod.reservation);
        let derived = derive(&delta.capacity, delta.gpu_count, held.iter());
        self.set_reserved(slot, reserved);
        self.generation[index] = delta.generation;
        let mig_changed = self.write_mig(slot, &delta.mig);
        self.write_content(slot, &Content::of(delta), &derived, mig_changed)
    }
}

impl NodeDelta {
    fn validate(&self, position: usize, models: usize) -> Result<(), Error> {
        let what = |field: &str| format!("upserts[{position}].{field} of node {}", self.key);
        for (field, value, bound, signed) in [
            ("cpu_free (milli)", self.cpu_free.0, MAX_MILLI_CPU, true),
            ("cpu_allocatable (milli)", self.cpu_allocatable.0, MAX_MILLI_CPU, false),
            ("memory_free (bytes)", self.memory_free.0, MAX_MEMORY_BYTES, true),
            ("memory_allocatable (bytes)", self.memory_allocatable.0, MAX_MEMORY_BYTES, false),
        ] {
            if value > bound || value < -bound {
                return Err(Error::limit(what(field), value, bound));
            }
            if value < 0 && !signed {
                return Err(Error::invalid(what(field), value, "it must not be negative"));
            }
        }
        let count = usize::from(self.gpu_count);
        if count > MAX_GPUS_PER_NODE {
            return Err(Error::limit(what("gpu_count"), self.gpu_count, MAX_GPUS_PER_NODE as i128));
        }
        if let Some(device) =
            (count..MAX_GPUS_PER_NODE).find(|&device| self.capacity[device] != MilliGpu::ZERO)
        {
            return Err(Error::invalid(
                what(&format!("gpu_capacity[{device}]")),
                self.capacity[device].get(),
                format!("the node has {count} devices; leave the rest at zero"),
            ));
        }
        if self.model != ModelId::NONE && usize::from(self.model.0) >= models {
            return Err(Error::invalid(
                what("model"),
                self.model.0,
                format!("only {models} models are known; intern the name first"),
            ));
        }
        self.validate_mig(what)?;
        if self.pod_count as usize > MAX_PODS_PER_NODE {
            return Err(Error::limit(what("pod_count"), self.pod_count, MAX_PODS_PER_NODE as i128));
        }
        Ok(())
    }
}

fn check_unique_pods(pods: &[PodRecord], first: usize, key: NodeKey) -> Result<(), Error> {
    if pods.is_sorted_by(|a, b| a.uid < b.uid) {
        return Ok(());
    }
    let mut uids: Vec<(PodUid, usize)> =
        pods.iter().enumerate().map(|(offset, pod)| (pod.uid, first + offset)).collect();
    uids.sort_unstable();
    match uids.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        None => Ok(()),
        Some(pair) => Err(Error::invalid(
            format!("pods[{}].uid on node {key}", pair[1].1),
            pair[1].0,
            format!("pods[{}] has the same uid; list each pod once per node", pair[0].1),
        )),
    }
}
