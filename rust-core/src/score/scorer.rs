//! Scores one node for one request under the configured strategy.

use super::baselines;
use super::fragments::Fragments;
use super::{Placed, Strategy};
use crate::cluster::{Cluster, NodeView};
use crate::filter::cpu_fits;
use crate::request::{GpuRequest, PodRequest};
use crate::stranding::fgd::TypicalPods;
use crate::stranding::{Look, MixMode, Quotes, Stranding};
use crate::units::{DeviceMask, MemoryBytes};
use crate::workers::Workers;

/// Whether a slot holds a node that takes pods of this sort.
fn offers(cluster: &Cluster, slot: usize, request: &PodRequest) -> bool {
    let share = matches!(request.gpu, GpuRequest::Share { .. });
    cluster.is_live(slot) && (!share || cluster.shares_offered(slot))
}

/// Bytes per slot of [`Quotes`].
const QUOTE_BYTES: usize = 33;

/// Costs of another `mix` are void; costs of other `prices` can be had from quotes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Epoch {
    pub(crate) mix: u64,
    pub(crate) prices: u64,
}

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
            Strategy::ExpectedStranding => self.stranding.refresh_if_due(cluster),
            Strategy::Fgd => {
                let relearns = self.stranding.stats().relearns;
                if self.fragments_of != Some(relearns) {
                    self.fragments_of = Some(relearns);
                    self.fragments = Fragments::new(&self.typical_pods());
                }
            }
            _ => {}
        }
    }

    /// What costs are computed with, the nodes aside.
    pub(crate) fn epoch(&self) -> Epoch {
        match self.strategy {
            Strategy::ExpectedStranding => Epoch {
                mix: u64::from(self.stranding.mix_epoch()),
                prices: u64::from(self.stranding.price_epoch()),
            },
            _ => Epoch { mix: self.fragments_of.unwrap_or(0), prices: 0 },
        }
    }

    /// Whether costs of the request change with prices alone, so that its column should hold quotes.
    pub(crate) fn quotes(&self, gpu: GpuRequest) -> bool {
        self.strategy == Strategy::ExpectedStranding && (self.score_cpu_only || !gpu.is_none())
    }

    /// Bytes per slot of a column.
    pub(crate) fn column_slot_bytes(&self) -> usize {
        let costs = size_of::<i64>() + size_of::<DeviceMask>();
        if self.strategy == Strategy::ExpectedStranding { costs + QUOTE_BYTES } else { costs }
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

    /// As [`Scorer::place`], with the prices left open in `quotes`.
    #[inline]
    pub(crate) fn quote(
        &mut self,
        cluster: &Cluster,
        slot: usize,
        request: &PodRequest,
        quotes: &mut Quotes,
    ) -> Option<Placed> {
        if !offers(cluster, slot, request) {
            quotes.clear(slot);
            return None;
        }
        quotes.set(slot, &mut self.stranding, &cluster.shape(slot))
    }

    /// As [`Scorer::quote`] for every slot that is `stale`. Their costs are open until the quotes are priced again.
    pub(crate) fn quote_all(
        &mut self,
        cluster: &Cluster,
        request: &PodRequest,
        quotes: &mut Quotes,
        workers: &dyn Workers,
        stale: &(dyn Fn(&usize) -> bool + Sync),
    ) {
        let look = |slot: usize| match stale(&slot) {
            false => Look::Keep,
            true if !offers(cluster, slot, request) => Look::Unfit,
            true => Look::At(cluster.shape(slot)),
        };
        quotes.fill(&mut self.stranding, workers, &look);
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
