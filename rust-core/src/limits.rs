//! Upper bounds on every input. A value beyond its bound is [`Error::LimitExceeded`](crate::Error::LimitExceeded):
//! the bounds keep all sums and products of the kernel inside `i64` and its memory inside what is stated here.

/// GPUs of one node. Bit masks of devices are 16 bits wide.
pub const MAX_GPUS_PER_NODE: usize = 16;
/// Nodes of one cluster.
pub const MAX_NODES: usize = 131_072;
/// Pod records of one node.
pub const MAX_PODS_PER_NODE: usize = 1_024;
/// Distinct GPU models ever interned; sets of models are 64 bits wide.
pub const MAX_MODELS: usize = 64;
/// Bytes of one model name (Kubernetes label values have at most 63).
pub const MAX_MODEL_NAME: usize = 63;
/// Kinds of pod in the workload mix.
pub const MAX_MIX_KINDS: usize = 512;
/// Largest CPU figure (free, allocatable or requested) in milli-cores: about 2.1 million cores.
pub const MAX_MILLI_CPU: i64 = i32::MAX as i64;
/// Largest memory figure in bytes: 64 PiB.
pub const MAX_MEMORY_BYTES: i64 = 1 << 56;
/// Largest memory that a kernel may use for memo tables and score columns, in bytes: 16 GiB.
pub const MAX_MEMO_BYTES: usize = 16 << 30;
/// Milli-GPU of one whole card.
pub const CARD_MILLI: u16 = 1_000;
