//! The experiment's figures.

use super::demand::Demand;
use super::jobs::JobTrace;

/// Cards of one node.
pub const CARDS_PER_NODE: u32 = 8;
/// CPU per GPU.
pub const MILLI_CPU_PER_GPU: i64 = 12_000;
/// Seconds of one day.
pub const DAY: i64 = 86_400;
/// Jobs of this many GPUs and more are of tier 1.
pub const TIER1_GPUS: u16 = 4;

/// Everything that is the same in all runs.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Jobs as submitted.
    pub jobs: JobTrace,
    /// Inference demand.
    pub demand: Demand,
    /// Nodes of 8 GPUs.
    pub nodes: u32,
    /// Days before anything is counted.
    pub warm_up_days: i64,
    /// Days that are counted.
    pub measured_days: i64,
    /// Least and largest share of the GPUs that inference wants.
    pub inference_share: (f64, f64),
    /// Time between the signal and the kill.
    pub grace_seconds: i64,
    /// The progress guarantee of `min-lost-work`.
    pub guarantee: Guarantee,
    /// How long a victim of `min-lost-work` waits before it may start again.
    pub requeue_wait_seconds: i64,
}

/// When unsaved jobs count as tier 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Guarantee {
    /// Evictions without a save; 0 = never.
    pub after: u32,
    /// GPUs per tenant that it may protect at one time.
    pub gpus_per_tenant: u32,
    /// Unsaved GPU-hours from which a job holds it before its first eviction.
    pub unsaved_gpu_hours: Option<u32>,
}

impl Guarantee {
    /// No guarantee.
    pub const OFF: Self = Self { after: 0, gpus_per_tenant: 0, unsaved_gpu_hours: None };
}

impl Setup {
    /// When the run ends.
    pub fn end_seconds(&self) -> i64 {
        (self.warm_up_days + self.measured_days) * DAY
    }

    /// When counting starts.
    pub fn start_seconds(&self) -> i64 {
        self.warm_up_days * DAY
    }

    /// GPUs of the cluster.
    pub fn gpus(&self) -> u32 {
        self.nodes * CARDS_PER_NODE
    }
}
