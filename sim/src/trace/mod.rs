//! Cluster and pod traces in the openb column layout, read strictly: whatever is wrong is named by file, line, column, value and what was expected.

mod nodes;
mod pods;
pub(crate) mod table;

pub use nodes::{NodeSpec, read_nodes};
pub use pods::{PodSpec, Trace, read_pods};
pub use table::TraceError;

/// Thousandths of one GPU on a whole device.
pub const GPU_MILLI_PER_DEVICE: u16 = 1000;
/// Most devices one node or one pod may have.
pub const MAX_GPUS: u8 = 16;
/// Most CPU a row may name, in thousandths of a core (ten million cores).
pub const MAX_CPU_MILLI: i64 = 10_000_000_000;
/// Most memory a row may name, in MiB (one exbibyte).
pub const MAX_MEMORY_MIB: i64 = 1 << 40;
