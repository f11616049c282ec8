//! Working memory of a sync, kept between syncs so that a small one allocates nothing.

use std::collections::HashSet;

use super::delta::SyncBatch;
use crate::error::Error;
use crate::hash::MixBuild;
use crate::units::NodeKey;

#[derive(Debug, Clone, Default)]
pub(super) struct Scratch {
    /// Slot of each upsert.
    pub(super) slots: Vec<u32>,
    /// Slots to clear.
    pub(super) dropped: Vec<u32>,
    /// Keys of upserts that no slot has yet.
    pub(super) new_keys: HashSet<NodeKey, MixBuild>,
    /// Per slot: the last batch that named it.
    named_by: Vec<u64>,
    batch: u64,
}

impl Scratch {
    pub(super) fn begin(&mut self, slots: usize, batch: &SyncBatch<'_>) -> Result<(), Error> {
        self.slots.clear();
        self.dropped.clear();
        self.new_keys.clear();
        self.batch += 1;
        let upserts = batch.upserts.len();
        let dropped = if batch.full { slots } else { batch.removals.len() };
        let reserved = self.slots.try_reserve(upserts).and_then(|()| {
            self.dropped.try_reserve(dropped)?;
            self.named_by.try_reserve(slots.saturating_sub(self.named_by.len()))
        });
        let bytes = (upserts + dropped) * 4 + slots * 8;
        reserved.map_err(|_| Error::OutOfMemory { what: "a sync", bytes })?;
        if self.named_by.len() < slots {
            self.named_by.resize(slots, 0);
        }
        Ok(())
    }

    /// False when this batch named the slot before.
    pub(super) fn mark(&mut self, slot: u32) -> bool {
        std::mem::replace(&mut self.named_by[slot as usize], self.batch) != self.batch
    }
}
