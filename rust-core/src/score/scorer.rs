//! Scores one node for one request under the configured strategy.

use super::baselines;
use super::fragments::Fragments;
use super::{Placed, Strategy};
use crate::cluster::{Cluster, NodeView};
use crate::filter::cpu_fits;
use crate::request::{GpuRequest, PodRequest};
use crate::stranding::fgd::TypicalPods;
use crate::stranding::{MixMode, Stranding};
use crate::units::{DeviceMask, MemoryBytes};

/// The scoring rule with what it has learned.
#[derive(Debug)]
pub(crate) struct Scorer {
    strategy: Strategy,
    score_cpu_only: bool,
    /// Typical pods of a mix that was given; those of a learned one follow it.
    given: Option<TypicalPods>,
    stranding: Stranding,
    fragments: Fragments,
    /// Relearns of the mix that `fragments` knows of.
    fragments_of: Option<u64>,
    epoch: u64,
}

impl Scorer {
    pub(crate) fn new(
        strategy: Strategy,
        score_cpu_only: bool,
        mix: MixMode,
        memo_bytes: usize,
    ) -> Self {
        let given = match &mix {
            MixMode::Fixed(counts) => Some(TypicalPods::from_counts(counts.iter().copied())),
            MixMode::Learned => None,
        };
        Self {
            strategy,
            score_cpu_only,
            given,
            stranding: Stranding::new(mix, memo_bytes),
            fragments: Fragments::default(),
            fragments_of: None,
            epoch: 0,
        }
    }

    pub(crate) fn stranding(&self) -> &Stranding {
        &self.stranding
    }

    pub(crate) fn stranding_mut(&mut self) -> &mut Stranding {
        &mut self.stranding
    }

    /// The typical pods of the mix as it is now.
    pub(crate) fn typical_pods(&self) -> TypicalPods {
        self.given.clone().unwrap_or_else(|| TypicalPods::from_mix(self.stranding.mix()))
    }

    /// Brings mix and prices up to date. Call before a decision.
    pub(crate) fn refresh(&mut self, cluster: &Cluster) {
        match self.strategy {
            Strategy::ExpectedStranding => {
                self.stranding.refresh_if_due(cluster);
                self.epoch = u64::from(self.stranding.price_epoch());
            }
            Strategy::Fgd => {
                let relearns = self.stranding.stats().relearns;
                if self.fragments_of != Some(relearns) {
                    self.fragments_of = Some(relearns);
                    self.fragments = Fragments::new(&self.typical_pods());
                    self.epoch += 1;
                }
            }
            _ => {}
        }
    }

    /// Changes whenever a cost may have changed for reasons other than the node's own content.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// What a cost depends on beside the kind.
    pub(crate) fn memory_in_cost(&self, request: &PodRequest) -> MemoryBytes {
        match self.strategy {
            Strategy::LeastAllocated => request.memory,
            _ => MemoryBytes(0),
        }
    }

    /// Cost and devices on the node in `slot`, memory aside; `None` if the pod does not fit.
    #[inline]
    pub(crate) fn place(
        &mut self,
        cluster: &Cluster,
        slot: usize,
        request: &PodRequest,
    ) -> Option<Placed> {
        if !cluster.is_live(slot) || !cpu_fits(cluster.cpu_free(slot), request.cpu) {
            return None;
        }
        self.place_on(&cluster.view(slot), request)
    }

    /// As [`Scorer::place`], on a view.
    pub(crate) fn place_on(&mut self, node: &NodeView, request: &PodRequest) -> Option<Placed> {
        let shape = &node.shape;
        if !request.models.contains(shape.model) || !cpu_fits(shape.cpu_free, request.cpu) {
            return None;
        }
        match request.gpu {
            GpuRequest::None if !self.score_cpu_only => {
                return Some(Placed { cost: 0, devices: DeviceMask::EMPTY });
            }
            GpuRequest::Share { .. } if !node.shares_offered => return None,
            _ => {}
        }
        match self.strategy {
            Strategy::ExpectedStranding => self.stranding.place(shape, &request.kind()),
            Strategy::Fgd => self.fragments.place(shape, &request.kind()),
            baseline => baselines::place(baseline, node, request),
        }
    }
}
