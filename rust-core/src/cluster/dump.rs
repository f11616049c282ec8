//! The canonical form of the cluster state: the same bytes for the same nodes and pods, however they were synced.
//!
//! Nodes stand in the order of their keys, pods in the order of their uids, models by name. Slots, generations, change
//! numbers and the order in which models were interned play no part.

use xxhash_rust::xxh3::Xxh3;

use super::pod::PodRecord;
use super::{Cluster, Content, MigCard, MigNode};
use crate::error::Error;
use crate::units::ModelId;

/// First bytes of the canonical form.
pub(super) const MAGIC: [u8; 4] = *b"MCS2";
/// Number of [`ModelId::NONE`] in the canonical form.
pub(super) const NO_MODEL: u8 = u8::MAX;

pub(super) const NODE_SHARES_OFFERED: u8 = 1;

pub(super) const POD_TERMINATING: u8 = 1;
pub(super) const POD_FOREIGN: u8 = 2;
pub(super) const POD_NO_LEARN: u8 = 4;
pub(super) const POD_RESERVATION: u8 = 8;
pub(super) const POD_HAS_CHECKPOINT: u8 = 16;

trait Sink {
    fn put(&mut self, bytes: &[u8]);
}

impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Only counts.
impl Sink for usize {
    fn put(&mut self, bytes: &[u8]) {
        *self += bytes.len();
    }
}

impl Sink for Xxh3 {
    fn put(&mut self, bytes: &[u8]) {
        self.update(bytes);
    }
}

impl Cluster {
    /// The cluster state in canonical order, little-endian.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn canonical_bytes(&self) -> Result<Vec<u8>, Error> {
        let mut length = 0;
        self.write_canonical(&mut length);
        let mut bytes = Vec::new();
        bytes
            .try_reserve_exact(length)
            .map_err(|_| Error::OutOfMemory { what: "the cluster state", bytes: length })?;
        self.write_canonical(&mut bytes);
        Ok(bytes)
    }

    /// XXH3 (128 bits) of the canonical form.
    #[must_use]
    pub fn digest(&self) -> u128 {
        let mut hash = Xxh3::new();
        self.write_canonical(&mut hash);
        hash.digest128()
    }

    fn write_canonical(&self, sink: &mut impl Sink) {
        let mut slots: Vec<usize> = (0..self.slots()).filter(|&slot| self.live[slot]).collect();
        slots.sort_unstable_by_key(|&slot| self.key[slot]);
        let models = self.models_by_name();
        sink.put(&MAGIC);
        sink.put(&[models.len() as u8]);
        for &(name, _) in &models {
            sink.put(&[name.len() as u8]);
            sink.put(name.as_bytes());
        }
        sink.put(&(slots.len() as u32).to_le_bytes());
        for slot in slots {
            let model = self.content[slot].model;
            let rank = models.iter().position(|&(_, id)| id == model);
            sink.put(&self.key[slot].0.to_le_bytes());
            write_content(sink, &self.content[slot], rank.map_or(NO_MODEL, |rank| rank as u8));
            write_mig(sink, &self.content[slot], self.mig(slot));
            sink.put(&(self.pods[slot].len() as u16).to_le_bytes());
            for pod in &self.pods[slot] {
                write_pod(sink, pod);
            }
        }
    }

    /// Models that a node has now; one that is only remembered is no part of the state.
    fn models_by_name(&self) -> Vec<(&str, ModelId)> {
        let mut used = 0u64;
        for slot in (0..self.slots()).filter(|&slot| self.live[slot]) {
            let model = self.content[slot].model;
            if model != ModelId::NONE {
                used |= 1 << model.0;
            }
        }
        let mut models: Vec<(&str, ModelId)> = (0..self.models.len())
            .filter(|id| used >> id & 1 == 1)
            .filter_map(|id| {
                let id = ModelId(id as u8);
                self.models.name(id).map(|name| (name, id))
            })
            .collect();
        models.sort_unstable();
        models
    }
}

fn write_content(sink: &mut impl Sink, content: &Content, model: u8) {
    for figure in [
        content.cpu_reported.0,
        content.memory_reported.0,
        content.cpu_allocatable.0,
        content.memory_allocatable.0,
    ] {
        sink.put(&figure.to_le_bytes());
    }
    let flags = if content.shares_offered { NODE_SHARES_OFFERED } else { 0 };
    sink.put(&[model, flags, content.gpu_count]);
    for capacity in &content.capacity[..usize::from(content.gpu_count)] {
        sink.put(&capacity.get().to_le_bytes());
    }
}

/// A byte for each device: the number of its MIG model, 0 without; then the places of those that have one.
fn write_mig(sink: &mut impl Sink, content: &Content, node: Option<&MigNode>) {
    for device in 0..usize::from(content.gpu_count) {
        let card = node.map_or(MigCard::NONE, |node| node.cards[device]);
        sink.put(&[card.model().map_or(0, |model| model as u8 + 1)]);
        if card.model().is_some() {
            sink.put(&card.offered().to_le_bytes());
        }
    }
}

fn write_pod(sink: &mut impl Sink, pod: &PodRecord) {
    let flag = |set: bool, bit: u8| if set { bit } else { 0 };
    sink.put(&pod.uid.0.to_le_bytes());
    sink.put(&pod.cpu.0.to_le_bytes());
    sink.put(&pod.memory.0.to_le_bytes());
    sink.put(&pod.start_seconds.to_le_bytes());
    sink.put(&pod.checkpoint_seconds.unwrap_or(0).to_le_bytes());
    sink.put(&pod.priority.0.to_le_bytes());
    sink.put(&pod.gpu.milli().get().to_le_bytes());
    sink.put(&pod.devices.0.to_le_bytes());
    sink.put(&[
        pod.gpu.count(),
        pod.unknown,
        pod.tier as u8,
        flag(pod.terminating, POD_TERMINATING)
            | flag(pod.foreign, POD_FOREIGN)
            | flag(pod.no_learn, POD_NO_LEARN)
            | flag(pod.reservation, POD_RESERVATION)
            | flag(pod.checkpoint_seconds.is_some(), POD_HAS_CHECKPOINT),
    ]);
    let known = pod.mig.known.as_slice();
    sink.put(&[known.len() as u8, pod.mig.unknown.kinds().count() as u8]);
    for held in known {
        sink.put(&[held.device, held.placement]);
    }
    for kind in pod.mig.unknown.kinds() {
        sink.put(&[kind.profile.0, kind.count]);
    }
}
