//! The life of a slot: made, occupied, written, cleared. The only writer of the columns of [`Cluster`].

use super::levels::{Derived, POD_CLASSES, derive};
use super::{Cluster, Content, DeviceLevels, MigCard};
use crate::error::Error;
use crate::limits::MAX_GPUS_PER_NODE;
use crate::units::{Generation, MemoryBytes, MilliCpu, MilliGpu, NodeKey};

impl Cluster {
    pub(super) fn reserve_slots(
        &mut self,
        fresh: usize,
        dropped: usize,
        added: usize,
    ) -> Result<(), Error> {
        let slots = fresh + self.slots();
        let bytes = slots * (size_of::<Content>() + size_of::<DeviceLevels>() + 128);
        let mut reserve = || {
            self.slot_of.try_reserve(added).ok()?;
            self.vacant.try_reserve(dropped + fresh).ok()?;
            self.reserved.try_reserve(added + self.live.len() - self.reserved.len()).ok()?;
            self.live.try_reserve(fresh).ok()?;
            self.slot_generation.try_reserve(fresh).ok()?;
            self.key.try_reserve(fresh).ok()?;
            self.generation.try_reserve(fresh).ok()?;
            self.version.try_reserve(fresh).ok()?;
            self.content.try_reserve(fresh).ok()?;
            self.free.try_reserve(fresh).ok()?;
            self.cpu_free.try_reserve(fresh).ok()?;
            self.memory_free.try_reserve(fresh).ok()?;
            self.idle_milli.try_reserve(fresh).ok()?;
            self.overcommitted_milli.try_reserve(fresh).ok()?;
            self.classes.try_reserve(fresh).ok()?;
            self.mig.try_reserve(fresh).ok()?;
            self.pods.try_reserve(fresh).ok()
        };
        reserve().ok_or(Error::OutOfMemory { what: "nodes", bytes })
    }

    pub(super) fn push_vacant_slot(&mut self) {
        self.vacant.push(self.live.len() as u32);
        self.live.push(false);
        self.slot_generation.push(0);
        self.key.push(NodeKey(0));
        self.generation.push(Generation(0));
        self.version.push(0);
        self.content.push(Content::VACANT);
        self.free.push([MilliGpu::ZERO; MAX_GPUS_PER_NODE]);
        self.cpu_free.push(MilliCpu(0));
        self.memory_free.push(MemoryBytes(0));
        self.idle_milli.push(0);
        self.overcommitted_milli.push(0);
        self.classes.push([0; POD_CLASSES]);
        self.mig.push(None);
        self.pods.push(Vec::new());
    }

    pub(super) fn clear_slot(&mut self, slot: u32) {
        let index = slot as usize;
        self.slot_of.remove(&self.key[index]);
        self.live[index] = false;
        self.totals.pods -= self.pods[index].len() as u64;
        self.pods[index].clear();
        self.set_reserved(slot, false);
        let nothing = derive(&Content::VACANT.capacity, 0, [].iter());
        self.write_mig(slot, &[MigCard::NONE; MAX_GPUS_PER_NODE]);
        self.write_content(slot, &Content::VACANT, &nothing, false);
        self.version[index] = self.changes.push(slot);
        self.vacant.push(slot);
    }

    pub(super) fn occupy_slot(&mut self, slot: u32, key: NodeKey) {
        let index = slot as usize;
        self.live[index] = true;
        self.slot_generation[index] = self.slot_generation[index].checked_add(1).unwrap_or(1);
        self.key[index] = key;
        self.slot_of.insert(key, slot);
        self.version[index] = self.changes.push(slot);
    }

    pub(super) fn set_reserved(&mut self, slot: u32, reserved: bool) {
        match (self.reserved.binary_search(&slot), reserved) {
            (Err(position), true) => self.reserved.insert(position, slot),
            (Ok(position), false) => {
                self.reserved.remove(position);
            }
            _ => {}
        }
    }

    /// Stores a slot's content; logs a change and returns true when decisions can see a difference.
    pub(super) fn write_content(
        &mut self,
        slot: u32,
        content: &Content,
        derived: &Derived,
        mig_changed: bool,
    ) -> bool {
        let index = slot as usize;
        let before = self.view(index);
        self.totals.shift(
            (
                self.content[index].capacity_milli(),
                self.idle_milli[index],
                self.overcommitted_milli[index],
            ),
            (content.capacity_milli(), derived.idle_milli, derived.overcommitted_milli),
        );
        self.content[index] = *content;
        self.free[index] = derived.free;
        self.cpu_free[index] = MilliCpu(content.cpu_reported.0 - derived.reserved_cpu);
        self.memory_free[index] = MemoryBytes(content.memory_reported.0 - derived.reserved_memory);
        self.idle_milli[index] = derived.idle_milli;
        self.overcommitted_milli[index] = derived.overcommitted_milli;
        self.classes[index] = derived.classes;
        let changed = mig_changed || before != self.view(index);
        if changed {
            self.version[index] = self.changes.push(slot);
        }
        changed
    }
}
