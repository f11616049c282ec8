//! The free shape of a node in the one form that decides its value: the multiset of free amounts, the free CPU and
//! which kinds its model allows. Device indices come back only when devices are chosen.

use crate::cluster::FreeShape;
use crate::limits::{CARD_MILLI, MAX_GPUS_PER_NODE, MAX_MILLI_CPU};
use crate::request::{GpuRequest, Kind};

/// A canonical free shape. Two nodes with equal shapes have equal values.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Shape {
    /// Free milli-GPU per device, falling; zeros at the end.
    pub(super) levels: [u16; MAX_GPUS_PER_NODE],
    /// Free milli-CPU, `0..=i32::MAX`: below zero nothing but kinds without CPU fits, as at zero.
    pub(super) cpu: i32,
    /// Class of the model (nodes whose models are allowed to the same kinds of the mix share one).
    pub(super) class: u8,
}

impl Shape {
    pub(super) fn new(free: &FreeShape, class: u8) -> Self {
        let mut levels = [0u16; MAX_GPUS_PER_NODE];
        for (len, milli) in free.levels().iter().enumerate() {
            let level = milli.get();
            let mut at = len;
            while at > 0 && levels[at - 1] < level {
                levels[at] = levels[at - 1];
                at -= 1;
            }
            levels[at] = level;
        }
        Self { levels, cpu: clamp_cpu(free.cpu_free.0), class }
    }

    /// Devices that are fully free.
    pub(super) fn whole(&self) -> usize {
        self.levels.iter().take_while(|&&level| level == CARD_MILLI).count()
    }

    /// Idle milli-GPU.
    pub(super) fn idle(&self) -> u32 {
        self.levels.iter().map(|&level| u32::from(level)).sum()
    }

    /// The next larger free amount above `above` that `kind`, which fits, may use; for anything but a share one
    /// choice that stands for all, 1000.
    pub(super) fn next_level(&self, kind: &Kind, above: u16) -> Option<u16> {
        match kind.gpu {
            GpuRequest::Share { milli } => {
                let least = milli.get().max(above + 1);
                self.levels.iter().rev().copied().find(|&level| level >= least)
            }
            _ => (above == 0).then_some(CARD_MILLI),
        }
    }

    /// The shape once `kind` runs here. A share goes to a device at `level`; `level` is ignored otherwise. The kind
    /// must fit, and some device be at `level`.
    pub(super) fn after(&self, kind: &Kind, level: u16) -> Self {
        let mut next = *self;
        next.cpu -= clamp_cpu(kind.cpu.0).min(self.cpu);
        match kind.gpu {
            GpuRequest::None => {}
            GpuRequest::Whole { count } => {
                let count = usize::from(count);
                next.levels.copy_within(count.., 0);
                next.levels[MAX_GPUS_PER_NODE - count..].fill(0);
            }
            GpuRequest::Share { milli } => {
                let mut at = next.levels.iter().rposition(|&l| l == level).unwrap_or(0);
                let rest = level - milli.get();
                while at + 1 < MAX_GPUS_PER_NODE && next.levels[at + 1] > rest {
                    next.levels[at] = next.levels[at + 1];
                    at += 1;
                }
                next.levels[at] = rest;
            }
        }
        next
    }
}

/// CPU within the bounds of the kernel, not negative.
pub(super) fn clamp_cpu(milli: i64) -> i32 {
    i32::try_from(milli.clamp(0, MAX_MILLI_CPU)).unwrap_or(i32::MAX)
}
