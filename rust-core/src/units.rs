//! Quantities and identities as distinct types, so that a unit cannot be mistaken for another.

use std::fmt;

use crate::limits::{CARD_MILLI, MAX_GPUS_PER_NODE, MAX_MODELS};

/// Thousandths of one GPU, `0..=1000`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct MilliGpu(u16);

impl MilliGpu {
    /// Nothing of a card.
    pub const ZERO: Self = Self(0);
    /// One whole card.
    pub const CARD: Self = Self(CARD_MILLI);

    /// `None` above one whole card.
    #[must_use]
    pub const fn new(milli: u16) -> Option<Self> {
        if milli <= CARD_MILLI { Some(Self(milli)) } else { None }
    }

    /// The nearest value in `0..=1000`.
    #[must_use]
    pub const fn clamped(milli: i64) -> Self {
        if milli <= 0 {
            Self::ZERO
        } else if milli >= CARD_MILLI as i64 {
            Self::CARD
        } else {
            Self(milli as u16)
        }
    }

    /// The number of thousandths.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0
    }

    /// What is left after `used` is taken, not below zero.
    #[must_use]
    pub const fn minus(self, used: Self) -> Self {
        Self(self.0.saturating_sub(used.0))
    }
}

/// Thousandths of a CPU core. Free values may be negative on overcommitted nodes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct MilliCpu(pub i64);

/// Memory in bytes, as kube-scheduler's NodeInfo counts it. Free values may be negative on overcommitted nodes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct MemoryBytes(pub i64);

/// An interned GPU model, `0..64`, or [`ModelId::NONE`] for a node without a model.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct ModelId(pub u8);

impl ModelId {
    /// A node that names no GPU model. Only [`ModelSet::ANY`] contains it.
    pub const NONE: Self = Self(u8::MAX);
}

/// A set of GPU models as 64 bits. Empty matches no node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct ModelSet(pub u64);

impl ModelSet {
    /// No constraint: every node, also those without a model.
    pub const ANY: Self = Self(u64::MAX);
    /// Matches nothing.
    pub const EMPTY: Self = Self(0);

    /// The set of one model.
    #[must_use]
    pub const fn only(model: ModelId) -> Self {
        Self::EMPTY.with(model)
    }

    /// This set and `model`. [`ModelId::NONE`] is in no explicit set.
    #[must_use]
    pub const fn with(self, model: ModelId) -> Self {
        if (model.0 as usize) < MAX_MODELS { Self(self.0 | 1 << model.0) } else { self }
    }

    /// Whether a node of this model is allowed.
    #[inline]
    #[must_use]
    pub const fn contains(self, model: ModelId) -> bool {
        self.0 == u64::MAX || ((model.0 as usize) < MAX_MODELS && self.0 >> model.0 & 1 == 1)
    }
}

/// A set of devices of one node: bit i is device i.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct DeviceMask(pub u16);

impl DeviceMask {
    /// No device.
    pub const EMPTY: Self = Self(0);

    /// The set of one device (`index < 16`).
    #[must_use]
    pub const fn only(index: usize) -> Self {
        Self(1 << index)
    }

    /// This set and device `index` (`index < 16`).
    #[must_use]
    pub const fn with(self, index: usize) -> Self {
        Self(self.0 | 1 << index)
    }

    /// Whether device `index` is in the set.
    #[inline]
    #[must_use]
    pub const fn contains(self, index: usize) -> bool {
        index < MAX_GPUS_PER_NODE && self.0 >> index & 1 == 1
    }

    /// Number of devices.
    #[must_use]
    pub const fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// No device in the set.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The device indices in rising order.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let mut bits = self.0;
        std::iter::from_fn(move || {
            if bits == 0 {
                return None;
            }
            let index = bits.trailing_zeros() as usize;
            bits &= bits - 1;
            Some(index)
        })
    }
}

/// A node of the cluster: slot and the slot's generation. A removed node's reference never matches a later node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeRef {
    /// Slot, `< MAX_NODES`.
    pub index: u32,
    /// Starts at 1; 0 never refers to a node.
    pub generation: u32,
}

impl NodeRef {
    /// Refers to no node; 0 as `u64`.
    pub const NIL: Self = Self { index: 0, generation: 0 };

    /// Generation in the high half, slot in the low half.
    #[must_use]
    pub const fn to_u64(self) -> u64 {
        (self.generation as u64) << 32 | self.index as u64
    }

    /// Inverse of [`NodeRef::to_u64`].
    #[must_use]
    pub const fn from_u64(value: u64) -> Self {
        Self { index: value as u32, generation: (value >> 32) as u32 }
    }

    /// Whether this is [`NodeRef::NIL`] (any reference of generation 0).
    #[must_use]
    pub const fn is_nil(self) -> bool {
        self.generation == 0
    }
}

impl fmt::Display for NodeRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slot {} generation {}", self.index, self.generation)
    }
}

/// The caller's generation of a node (NodeInfo.Generation). Compared with `!=` only.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct Generation(pub i64);

/// Pod priority as Kubernetes has it; higher is more important.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct Priority(pub i32);

/// What kind of work a pod does; lower tiers must not be evicted for higher ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
pub enum Tier {
    /// Serves requests; never a victim.
    Inference = 0,
    /// Training.
    Training = 1,
    /// Batch work.
    #[default]
    Batch = 2,
}

impl Tier {
    /// `None` for a number that is no tier.
    #[must_use]
    pub const fn new(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Inference),
            1 => Some(Self::Training),
            2 => Some(Self::Batch),
            _ => None,
        }
    }
}

/// A pod's UID as 128 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct PodUid(pub u128);

impl fmt::Debug for PodUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for PodUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let v = self.0;
        write!(
            f,
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            v >> 96,
            v >> 80 & 0xffff,
            v >> 64 & 0xffff,
            v >> 48 & 0xffff,
            v & 0xffff_ffff_ffff
        )
    }
}

/// The caller's lasting identity of a node (a hash of its name): orders nodes independently of slots.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct NodeKey(pub u64);

impl fmt::Debug for NodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for NodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#018x}", self.0)
    }
}
