//! Pods of a trace as the kernel takes them.

use std::cmp::Reverse;
use std::collections::HashMap;

use mortise_core::{
    GpuRequest, Kind, MilliCpu, ModelId, ModelSet, PodRequest, PodUid, Priority, Tier,
};

use super::cluster::memory_bytes;
use crate::trace::PodSpec;

/// Ids of the nodes' models, in the order in which a new kernel hands them out.
#[derive(Default)]
pub(super) struct Models(HashMap<String, ModelId>);

impl Models {
    pub(super) fn intern(&mut self, name: &str) -> ModelId {
        if name.is_empty() {
            return ModelId::NONE;
        }
        let next = ModelId(u8::try_from(self.0.len()).unwrap_or(u8::MAX));
        *self.0.entry(name.to_owned()).or_insert(next)
    }

    pub(super) fn in_order(&self) -> Vec<(&str, ModelId)> {
        let mut all: Vec<_> = self.0.iter().map(|(name, &id)| (name.as_str(), id)).collect();
        all.sort_by_key(|&(_, id)| id);
        all
    }

    /// Models that no node has are left out: a pod that names only such ones fits nowhere.
    fn set(&self, pod: &PodSpec) -> ModelSet {
        if !pod.is_constrained() {
            return ModelSet::ANY;
        }
        let known = pod.models().filter_map(|name| self.0.get(name));
        known.fold(ModelSet::EMPTY, |set, &id| set.with(id))
    }
}

/// The request without an identity: the uid is set per arrival.
pub(super) fn request(pod: &PodSpec, models: &Models) -> PodRequest {
    PodRequest {
        uid: PodUid(0),
        cpu: MilliCpu(pod.cpu_milli),
        memory: memory_bytes(pod.memory_mib),
        gpu: GpuRequest::new(u16::from(pod.num_gpu), pod.gpu_milli)
            .expect("the reader of traces lets only valid combinations through"),
        models: models.set(pod),
        priority: Priority(0),
        tier: Tier::Batch,
        mig: Default::default(),
    }
}

/// The kinds of a trace with their counts, commonest first.
pub(super) fn kind_counts(requests: &[PodRequest]) -> Vec<(Kind, u64)> {
    let mut counts: HashMap<Kind, u64> = HashMap::new();
    for request in requests {
        *counts.entry(request.kind()).or_default() += 1;
    }
    let mut kinds: Vec<(Kind, u64)> = counts.into_iter().collect();
    kinds.sort_by_key(|&(kind, count)| (Reverse(count), Reverse(kind)));
    kinds
}
