//! The read side: what filters and scores see of a node.

use super::levels::{DeviceLevels, POD_CLASSES};
use crate::limits::{CARD_MILLI, MAX_GPUS_PER_NODE};
use crate::units::{DeviceMask, MemoryBytes, MilliCpu, MilliGpu, ModelId, NodeKey};

/// What decides the value of a node for future pods: memory and the pods' identity play no part.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FreeShape {
    /// GPU model.
    pub model: ModelId,
    /// Number of devices, `0..=16`.
    pub gpu_count: u8,
    /// Free milli-GPU per device; zero beyond `gpu_count`.
    pub free: [MilliGpu; MAX_GPUS_PER_NODE],
    /// Free CPU; negative on an overcommitted node.
    pub cpu_free: MilliCpu,
}

impl FreeShape {
    /// The levels of the node's devices.
    #[inline]
    #[must_use]
    pub fn levels(&self) -> &[MilliGpu] {
        &self.free[..usize::from(self.gpu_count).min(MAX_GPUS_PER_NODE)]
    }

    /// Idle milli-GPU over all devices.
    #[inline]
    #[must_use]
    pub fn idle_milli(&self) -> u32 {
        self.free.iter().map(|free| u32::from(free.get())).sum()
    }

    /// Number of devices with a whole card free.
    #[inline]
    #[must_use]
    pub fn whole_free(&self) -> u32 {
        self.free.iter().map(|free| u32::from(free.get() == CARD_MILLI)).sum()
    }

    /// The shape after `milli` was taken from each device of `devices` and `cpu` from the CPU.
    #[inline]
    #[must_use]
    pub fn after(&self, cpu: MilliCpu, milli: MilliGpu, devices: DeviceMask) -> Self {
        let mut shape = *self;
        for device in devices.iter() {
            shape.free[device] = shape.free[device].minus(milli);
        }
        shape.cpu_free = MilliCpu(shape.cpu_free.0 - cpu.0);
        shape
    }
}

/// One node as a pod sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeView {
    /// Lasting identity.
    pub key: NodeKey,
    /// Free GPU and CPU.
    pub shape: FreeShape,
    /// Free memory.
    pub memory_free: MemoryBytes,
    /// CPU of the node for pods.
    pub cpu_allocatable: MilliCpu,
    /// Memory of the node for pods.
    pub memory_allocatable: MemoryBytes,
    /// Whether the node takes shares of a card.
    pub shares_offered: bool,
    /// GPU pods by class: `[0]` shares, `[n]` pods with n whole cards.
    pub classes: [u16; POD_CLASSES],
    /// Size of each device.
    pub capacity: DeviceLevels,
}
