//! Pods on nodes.

use super::NodeDelta;
use crate::error::Error;
use crate::mig::MigHeld;
use crate::request::{GpuRequest, check_cpu, check_memory};
use crate::units::{DeviceMask, MemoryBytes, MilliCpu, ModelSet, PodUid, Priority, Tier};

/// A pod that holds something of a node: bound, assumed, of another scheduler, or a nominated pod's reservation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PodRecord {
    /// The pod; once per node.
    pub uid: PodUid,
    /// Priority.
    pub priority: Priority,
    /// Tier.
    pub tier: Tier,
    /// CPU it asked for. The node's `cpu_free` already excludes it, except for a reservation.
    pub cpu: MilliCpu,
    /// Memory it asked for. The node's `memory_free` already excludes it, except for a reservation.
    pub memory: MemoryBytes,
    /// GPUs it holds.
    pub gpu: GpuRequest,
    /// Devices known to be held.
    pub devices: DeviceMask,
    /// Cards held whose identity is unknown; with `devices` they make up the cards of `gpu`.
    pub unknown: u8,
    /// Start of the pod, Unix seconds.
    pub start_seconds: i64,
    /// Last saved checkpoint, Unix seconds; `None` = never saved.
    pub checkpoint_seconds: Option<i64>,
    /// Being deleted; still holds its cards.
    pub terminating: bool,
    /// Placed by another scheduler.
    pub foreign: bool,
    /// Not an arrival of the workload mix (DaemonSet, placeholder).
    pub no_learn: bool,
    /// A nominated pod's hold: CPU, memory and cards are kept from pods of lower priority, and not from the pod itself.
    pub reservation: bool,
    /// Models the pod would accept. Read by [`Kernel::learn_from_pods`](crate::Kernel::learn_from_pods) only; no part
    /// of the canonical state.
    pub models: ModelSet,
    /// MIG instances it holds.
    pub mig: MigHeld,
}

impl PodRecord {
    /// A pod of this size on known devices, everything else at its default.
    #[must_use]
    pub fn new(uid: PodUid, gpu: GpuRequest, devices: DeviceMask) -> Self {
        Self {
            uid,
            priority: Priority(0),
            tier: Tier::Batch,
            cpu: MilliCpu(0),
            memory: MemoryBytes(0),
            gpu,
            devices,
            unknown: 0,
            start_seconds: 0,
            checkpoint_seconds: None,
            terminating: false,
            foreign: false,
            no_learn: false,
            reservation: false,
            models: ModelSet::ANY,
            mig: MigHeld::NONE,
        }
    }

    /// Whether the record keeps its holds from a pod of this identity and priority. Only a reservation ever yields:
    /// to its own pod and to pods of higher priority, as upstream's nominations do.
    #[must_use]
    pub fn holds_against(&self, uid: PodUid, priority: Priority) -> bool {
        !self.reservation || (self.uid != uid && self.priority >= priority)
    }

    pub(super) fn validate(&self, position: usize, node: &NodeDelta) -> Result<(), Error> {
        let gpu_count = node.gpu_count;
        let fail = |error: Error| locate(error, position, self.uid);
        check_cpu("cpu", self.cpu).map_err(fail)?;
        check_memory("memory", self.memory).map_err(fail)?;
        GpuRequest::new(u16::from(self.gpu.count()), self.gpu.milli().get()).map_err(fail)?;
        let beyond = u32::from(self.devices.0) >> gpu_count.min(16);
        if beyond != 0 {
            return Err(Error::invalid(
                format!("pods[{position}].devices of pod {}", self.uid),
                format!("{:#06x}", self.devices.0),
                format!(
                    "the node has {gpu_count} devices; count cards it does not list as unknown"
                ),
            ));
        }
        self.validate_mig(&node.mig).map_err(fail)?;
        let held = self.devices.count() + u32::from(self.unknown);
        if held != u32::from(self.gpu.count()) {
            return Err(Error::invalid(
                format!("pods[{position}] of pod {}: known devices + unknown cards", self.uid),
                format!("{} + {}", self.devices.count(), self.unknown),
                format!("they must add up to the {} cards the pod holds", self.gpu.count()),
            ));
        }
        Ok(())
    }
}

fn locate(error: Error, position: usize, uid: PodUid) -> Error {
    let place = |what: String| format!("pods[{position}] of pod {uid}: {what}");
    match error {
        Error::InvalidValue { what, value, fix } => {
            Error::InvalidValue { what: place(what), value, fix }
        }
        Error::LimitExceeded { what, value, limit } => {
            Error::LimitExceeded { what: place(what), value, limit }
        }
        other => other,
    }
}
