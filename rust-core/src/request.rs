//! What a pod asks for.

use crate::error::Error;
use crate::limits::{CARD_MILLI, MAX_GPUS_PER_NODE, MAX_MEMORY_BYTES, MAX_MILLI_CPU};
use crate::mig::MigRequest;
use crate::units::{MemoryBytes, MilliCpu, MilliGpu, ModelSet, PodUid, Priority, Tier};

/// The GPU part of a request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum GpuRequest {
    /// No GPU.
    #[default]
    None,
    /// `count` whole cards, `1..=16`.
    Whole {
        /// Number of cards.
        count: u8,
    },
    /// A share of one card, `1..=999` milli.
    Share {
        /// Thousandths of the card.
        milli: MilliGpu,
    },
}

impl GpuRequest {
    /// `count` cards of `milli` each. Whole cards are `n x 1000`, a share is `1 x 1..=999`, no GPU is `0 x 0`.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] for anything else, [`Error::LimitExceeded`] above 16 cards.
    pub fn new(count: u16, milli: u16) -> Result<Self, Error> {
        match (count, milli) {
            (0, 0) => Ok(Self::None),
            (0, _) => Err(Error::invalid(
                "gpu count",
                format!("0 with {milli} milli"),
                "ask for 1 card with a share of 1..999 milli, or for no GPU with 0 x 0",
            )),
            (n, _) if usize::from(n) > MAX_GPUS_PER_NODE => {
                Err(Error::limit("gpu count", n, MAX_GPUS_PER_NODE as i128))
            }
            (n, CARD_MILLI) => Ok(Self::Whole { count: n as u8 }),
            (1, m) if m > 0 && m < CARD_MILLI => {
                Ok(Self::Share { milli: MilliGpu::clamped(i64::from(m)) })
            }
            (1, _) => Err(Error::invalid(
                "gpu milli",
                milli,
                "a share is 1..999 milli of one card, a whole card is 1000",
            )),
            (n, _) => Err(Error::invalid(
                "gpu request",
                format!("{n} cards of {milli} milli"),
                "several cards must be whole (1000 milli each); a share is of one card",
            )),
        }
    }

    /// Number of cards touched.
    #[inline]
    #[must_use]
    pub const fn count(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Whole { count } => count,
            Self::Share { .. } => 1,
        }
    }

    /// Milli-GPU per card.
    #[inline]
    #[must_use]
    pub const fn milli(self) -> MilliGpu {
        match self {
            Self::None => MilliGpu::ZERO,
            Self::Whole { .. } => MilliGpu::CARD,
            Self::Share { milli } => milli,
        }
    }

    /// Milli-GPU over all cards.
    #[inline]
    #[must_use]
    pub const fn total_milli(self) -> u32 {
        self.count() as u32 * self.milli().get() as u32
    }

    /// No GPU is asked for.
    #[inline]
    #[must_use]
    pub const fn is_none(self) -> bool {
        matches!(self, Self::None)
    }
}

/// What a pending pod asks for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PodRequest {
    /// The pod; counts once in the learned mix.
    pub uid: PodUid,
    /// CPU, not negative.
    pub cpu: MilliCpu,
    /// Memory, not negative.
    pub memory: MemoryBytes,
    /// GPUs.
    pub gpu: GpuRequest,
    /// Models of GPU that will do.
    pub models: ModelSet,
    /// Priority; decides whose reservations hold against it.
    pub priority: Priority,
    /// Tier.
    pub tier: Tier,
    /// MIG instances, beside the GPUs.
    pub mig: MigRequest,
}

impl PodRequest {
    /// Checks the figures against their bounds.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] for negative figures or a GPU request out of its domain, [`Error::LimitExceeded`] beyond
    /// a bound of [`limits`](crate::limits).
    pub fn validate(&self) -> Result<(), Error> {
        check_cpu("cpu request", self.cpu)?;
        check_memory("memory request", self.memory)?;
        GpuRequest::new(u16::from(self.gpu.count()), self.gpu.milli().get()).map(|_| ())
    }

    /// All but the MIG instances.
    #[must_use]
    pub const fn without_mig(&self) -> Self {
        Self { mig: MigRequest::NONE, ..*self }
    }

    /// What the workload mix counts.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        Kind { cpu: self.cpu, gpu: self.gpu, models: self.models }
    }
}

/// A kind of pod in the workload mix. Memory is a filter only and not part of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Kind {
    /// CPU.
    pub cpu: MilliCpu,
    /// GPUs.
    pub gpu: GpuRequest,
    /// Models of GPU that will do.
    pub models: ModelSet,
}

pub(crate) fn check_cpu(what: &str, cpu: MilliCpu) -> Result<(), Error> {
    if cpu.0 < 0 {
        return Err(Error::invalid(what, format!("{} milli", cpu.0), "it must not be negative"));
    }
    if cpu.0 > MAX_MILLI_CPU {
        return Err(Error::limit(format!("{what} (milli)"), cpu.0, MAX_MILLI_CPU));
    }
    Ok(())
}

pub(crate) fn check_memory(what: &str, memory: MemoryBytes) -> Result<(), Error> {
    if memory.0 < 0 {
        return Err(Error::invalid(what, format!("{} bytes", memory.0), "it must not be negative"));
    }
    if memory.0 > MAX_MEMORY_BYTES {
        return Err(Error::limit(format!("{what} (bytes)"), memory.0, MAX_MEMORY_BYTES));
    }
    Ok(())
}
