//! Handles: a table of clusters, each behind its own lock, with a poison flag and a pool of conversion buffers.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossbeam::queue::ArrayQueue;
use mortise_core::Kernel;
use parking_lot::RwLock;

use crate::abi;
use crate::fault::Fault;
use crate::scratch::Scratch;
use crate::threads::Threads;

/// Calls that convert their input at the same time keep their buffers up to this number.
const POOLED_SCRATCHES: usize = 4;

static TABLE: RwLock<Table> = RwLock::new(Table { slots: Vec::new() });

struct Table {
    slots: Vec<Slot>,
}

struct Slot {
    /// Of the handle given out last for this slot.
    generation: u32,
    cluster: Option<Arc<HostedCluster>>,
}

/// A cluster as the ABI keeps it.
pub(crate) struct HostedCluster {
    kernel: RwLock<Kernel>,
    poisoned: AtomicBool,
    lock_wait: Duration,
    /// `MORTISE_CONFIG_*`.
    pub(crate) flags: u32,
    /// For calls that look at every node anew.
    pub(crate) threads: Threads,
    scratches: ArrayQueue<Box<Scratch>>,
}

impl HostedCluster {
    pub(crate) fn new(kernel: Kernel, lock_wait: Duration, flags: u32, threads: Threads) -> Self {
        Self {
            kernel: RwLock::new(kernel),
            poisoned: AtomicBool::new(false),
            lock_wait,
            flags,
            threads,
            scratches: ArrayQueue::new(POOLED_SCRATCHES),
        }
    }

    /// Runs a writing call; waits a bounded time for its turn.
    pub(crate) fn write<R>(
        &self,
        body: impl FnOnce(&mut Kernel) -> Result<R, Fault>,
    ) -> Result<R, Fault> {
        let guard = self.kernel.try_write().or_else(|| self.kernel.try_write_for(self.lock_wait));
        let Some(mut kernel) = guard else {
            return Err(busy(&format!("did not end within {} ms", self.lock_wait.as_millis())));
        };
        self.check_poison()?;
        let poison = PoisonOnUnwind(&self.poisoned);
        let outcome = body(&mut kernel);
        poison.disarm();
        outcome
    }

    /// Runs a reading call, unless a writing one is at work.
    pub(crate) fn read<R>(
        &self,
        body: impl FnOnce(&Kernel) -> Result<R, Fault>,
    ) -> Result<R, Fault> {
        let Some(kernel) = self.kernel.try_read() else {
            return Err(busy("is at work"));
        };
        self.check_poison()?;
        let poison = PoisonOnUnwind(&self.poisoned);
        let outcome = body(&kernel);
        poison.disarm();
        outcome
    }

    /// Conversion buffers for one call.
    pub(crate) fn scratch(&self) -> PooledScratch<'_> {
        PooledScratch { scratch: Some(self.scratches.pop().unwrap_or_default()), pool: self }
    }

    fn check_poison(&self) -> Result<(), Fault> {
        if self.poisoned.load(Ordering::Acquire) {
            return Err(Fault::new(
                abi::MORTISE_ERR_POISONED,
                "an earlier call on this handle panicked; free it, build a new cluster and sync it in full",
            ));
        }
        Ok(())
    }
}

#[cold]
fn busy(what: &str) -> Fault {
    Fault::new(abi::MORTISE_ERR_BUSY, format!("another call on this handle {what}; try again"))
}

/// Sets the flag when it is dropped by a panic (parking_lot's locks do not poison).
struct PoisonOnUnwind<'a>(&'a AtomicBool);

impl PoisonOnUnwind<'_> {
    fn disarm(self) {
        std::mem::forget(self);
    }
}

impl Drop for PoisonOnUnwind<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// A [`Scratch`] that goes back to its pool.
pub(crate) struct PooledScratch<'a> {
    scratch: Option<Box<Scratch>>,
    pool: &'a HostedCluster,
}

impl Deref for PooledScratch<'_> {
    type Target = Scratch;

    fn deref(&self) -> &Scratch {
        self.scratch.as_ref().expect("present until dropped")
    }
}

impl DerefMut for PooledScratch<'_> {
    fn deref_mut(&mut self) -> &mut Scratch {
        self.scratch.as_mut().expect("present until dropped")
    }
}

impl Drop for PooledScratch<'_> {
    fn drop(&mut self) {
        if let Some(scratch) = self.scratch.take() {
            // A full pool gives it back: then this one is freed.
            drop(self.pool.scratches.push(scratch));
        }
    }
}

/// Puts a cluster into the table.
pub(crate) fn insert(cluster: HostedCluster) -> Result<abi::mortise_handle, Fault> {
    let cluster = Arc::new(cluster);
    let mut table = TABLE.write();
    // A slot whose generations are used up is never used again.
    let free =
        table.slots.iter().position(|slot| slot.cluster.is_none() && slot.generation < u32::MAX);
    let index = match free {
        Some(index) => index,
        None if table.slots.len() < abi::MORTISE_MAX_HANDLES as usize => {
            table.slots.push(Slot { generation: 0, cluster: None });
            table.slots.len() - 1
        }
        None => {
            return Err(Fault::limit(
                "number of handles",
                table.slots.len() + 1,
                format_args!("{}; free those you no longer use", abi::MORTISE_MAX_HANDLES),
            ));
        }
    };
    let slot = &mut table.slots[index];
    slot.generation += 1;
    slot.cluster = Some(cluster);
    Ok(u64::from(slot.generation) << 32 | index as u64)
}

/// The cluster of a handle, unless it is poisoned.
pub(crate) fn get(handle: abi::mortise_handle) -> Result<Arc<HostedCluster>, Fault> {
    let table = TABLE.read();
    let cluster = table
        .slots
        .get(slot_index(handle))
        .filter(|slot| slot.generation == generation(handle))
        .and_then(|slot| slot.cluster.clone());
    drop(table);
    let cluster = cluster.ok_or_else(|| bad_handle(handle))?;
    cluster.check_poison()?;
    Ok(cluster)
}

/// Takes a cluster out of the table; it is dropped with the last call that runs on it.
pub(crate) fn remove(handle: abi::mortise_handle) -> Result<Arc<HostedCluster>, Fault> {
    TABLE
        .write()
        .slots
        .get_mut(slot_index(handle))
        .filter(|slot| slot.generation == generation(handle))
        .and_then(|slot| slot.cluster.take())
        .ok_or_else(|| bad_handle(handle))
}

const fn slot_index(handle: abi::mortise_handle) -> usize {
    (handle & 0xffff_ffff) as usize
}

const fn generation(handle: abi::mortise_handle) -> u32 {
    (handle >> 32) as u32
}

#[cold]
fn bad_handle(handle: abi::mortise_handle) -> Fault {
    Fault::new(
        abi::MORTISE_ERR_BAD_HANDLE,
        format!(
            "handle {handle:#x} is not in use; it was freed or never came from mortise_cluster_new"
        ),
    )
}
