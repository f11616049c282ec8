//! The kernel of Mortise: which node and which devices a pod should get.
//!
//! No IO, no clock, no threads, no globals: time and seeds are arguments, and the same state and seed give the same
//! answer. [`Kernel`] is the way in; [`cluster`] holds the state, [`filter`] says what fits, [`score`] what a placement
//! costs, [`stranding`] what a free shape is worth to the pods still to come,
//! [`preempt`] who gives way when nothing fits, [`mig`] which card and slices a MIG instance takes.

#![forbid(unsafe_code)]

pub mod cluster;
mod error;
pub mod explain;
pub mod filter;
pub mod hash;
mod kernel;
pub mod limits;
pub mod mig;
pub mod preempt;
mod request;
pub mod score;
pub mod stranding;
pub mod units;
mod workers;

pub use cluster::{Cluster, NodeDelta, PodRecord, SyncBatch, SyncReport};
pub use error::{Error, ErrorCode};
pub use filter::{Reason, Unfit};
pub use kernel::{
    Candidates, Config, Decision, Fragmentation, Kernel, NodeReason, NodeScore, Stats,
};
pub use request::{GpuRequest, Kind, PodRequest};
pub use score::{Placed, Strategy};
pub use stranding::MixMode;
pub use units::{
    DeviceMask, Generation, MemoryBytes, MilliCpu, MilliGpu, ModelId, ModelSet, NodeKey, NodeRef,
    PodUid, Priority, Tier,
};
pub use workers::{MAX_PARTS, OneThread, Workers};
