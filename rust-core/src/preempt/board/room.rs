//! What is free on a slot as the board stands now.

use super::super::candidates::{CostShare, SPLIT};
use super::super::scene::Scene;
use super::super::tables::NONE;
use super::{Board, Step};
use crate::cluster::{FreeShape, PodRecord, derive};
use crate::filter;
use crate::limits::MAX_GPUS_PER_NODE;
use crate::request::{GpuRequest, PodRequest};
use crate::units::{MemoryBytes, MilliCpu, MilliGpu, PodUid};

impl Board {
    /// Free milli-GPU per device.
    pub(in super::super) fn levels(
        &self,
        scene: &Scene<'_>,
        index: usize,
    ) -> [u16; MAX_GPUS_PER_NODE] {
        let slot = &self.slots[index];
        if slot.unknown {
            return self.derived_levels(scene, index);
        }
        self.levels_without(index, &[0; MAX_GPUS_PER_NODE])
    }

    fn derived_levels(&self, scene: &Scene<'_>, index: usize) -> [u16; MAX_GPUS_PER_NODE] {
        let slot = &self.slots[index];
        let first = slot.first as usize;
        let mut placed: Vec<PodRecord> = Vec::new();
        for step in &self.trail {
            if let Step::Place { slot, devices, milli, .. } = *step
                && slot as usize == index
                && let Ok(gpu) = GpuRequest::new(devices.count() as u16, milli)
            {
                placed.push(PodRecord::new(PodUid(0), gpu, devices));
            }
        }
        let there = scene
            .cluster
            .pods(index)
            .iter()
            .enumerate()
            .filter(|(position, _)| !self.pieces[first + position].gone)
            .map(|(_, record)| record)
            .chain(&placed);
        derive(scene.cluster.capacity(index), slot.gpu_count, there).free.map(MilliGpu::get)
    }

    /// Free levels if `removable` were taken off as well; for slots without unknown holders.
    pub(in super::super) fn levels_without(
        &self,
        index: usize,
        removable: &[u32; MAX_GPUS_PER_NODE],
    ) -> [u16; MAX_GPUS_PER_NODE] {
        let slot = &self.slots[index];
        let mut levels = [0; MAX_GPUS_PER_NODE];
        for (device, level) in levels.iter_mut().enumerate() {
            let held = slot.held[device].saturating_sub(removable[device]);
            *level = u32::from(slot.capacity[device]).saturating_sub(held) as u16;
        }
        levels
    }

    /// A pod's part of what its unit costs, per card of the unit on this slot.
    pub(in super::super) fn split_cost(&self, index: u32, tier1: bool) -> CostShare {
        let piece = &self.pieces[index as usize];
        let part = |lost: i64, tier1: bool, cards: i64| CostShare {
            lost: lost / cards,
            tier1_parts: u32::from(tier1) * SPLIT / cards as u32,
            unit_parts: SPLIT / cards as u32,
        };
        let alone = part(piece.lost, tier1, i64::from(piece.devices.count()).max(1));
        if piece.gang == NONE {
            return alone;
        }
        let crew = &self.crews[piece.gang as usize];
        let (mut cards, mut there) = (0, 0);
        for other in self.on_slot(piece.slot as usize) {
            let other = &self.pieces[other as usize];
            if other.gang == piece.gang && !other.gone {
                cards += i64::from(other.devices.count());
                there += 1;
            }
        }
        let spare = crew.surplus - crew.singles;
        if spare > 0 {
            let all_spare = there <= spare;
            return if all_spare {
                alone
            } else {
                CostShare { tier1_parts: 0, unit_parts: 0, ..alone }
            };
        }
        let whole = part(crew.lost, crew.tier1, cards.max(1));
        if crew.singles == 0 { whole } else { CostShare { lost: alone.lost, ..whole } }
    }

    /// Cards of the slot have unknown holders.
    pub(in super::super) fn has_unknown(&self, slot: usize) -> bool {
        self.slots[slot].unknown
    }

    /// Whether the pod fits the slot as it is now. Model and offered shares are the caller's.
    #[inline]
    pub(in super::super) fn fits(
        &self,
        scene: &Scene<'_>,
        index: usize,
        request: &PodRequest,
    ) -> bool {
        self.fits_gpu(scene, index, request) && self.fits_host(index, request)
    }

    pub(in super::super) fn fits_gpu(
        &self,
        scene: &Scene<'_>,
        index: usize,
        request: &PodRequest,
    ) -> bool {
        match request.gpu {
            GpuRequest::None => true,
            GpuRequest::Whole { count } => {
                let levels = self.levels(scene, index);
                levels.iter().filter(|&&level| level == 1_000).count() >= usize::from(count)
            }
            GpuRequest::Share { milli } => {
                self.levels(scene, index).iter().any(|&level| level >= milli.get())
            }
        }
    }

    /// Whether CPU and memory suffice.
    pub(in super::super) fn fits_host(&self, index: usize, request: &PodRequest) -> bool {
        let slot = &self.slots[index];
        (request.cpu.0 <= slot.cpu || request.cpu.0 == 0)
            && (request.memory.0 <= slot.memory || request.memory.0 == 0)
    }

    /// The slot's free shape as it is now.
    pub(in super::super) fn shape(&self, scene: &Scene<'_>, index: usize) -> FreeShape {
        let mut shape = scene.cluster.shape(index);
        shape.free = self.levels(scene, index).map(|level| MilliGpu::clamped(i64::from(level)));
        shape.cpu_free = MilliCpu(self.slots[index].cpu);
        shape
    }

    /// The official filter's verdict on the slot as it is now.
    pub(in super::super) fn check(
        &self,
        scene: &Scene<'_>,
        index: usize,
        request: &PodRequest,
    ) -> Result<(), filter::Unfit> {
        let mut view = scene.cluster.view(index);
        view.shape = self.shape(scene, index);
        view.memory_free = MemoryBytes(self.slots[index].memory);
        filter::check(&view, request)
    }
}
