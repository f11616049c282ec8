//! The header's structs as the kernel's types. No enum or bool is made from bytes: every value is looked at first.

use mortise_core::mig::{MAX_MIG_KINDS, MAX_MIG_PER_POD};
use mortise_core::preempt::{
    Disruption, Gang, MAX_DECLARED_SECONDS, MAX_GROUP_MEMBERS, MAX_POD_FACTS, NONE, PodFacts,
};
use mortise_core::{
    DeviceMask, Error, Generation, GpuRequest, Kind, MemoryBytes, MilliCpu, MilliGpu, ModelId,
    ModelSet, NodeDelta, NodeKey, NodeRef, PodRecord, PodRequest, PodUid, Priority, Tier, limits,
};

use crate::abi;
use crate::boundary::{check_flags, check_reserved};
use crate::fault::Fault;

mod mig;

const _: () = {
    assert!(limits::MAX_GPUS_PER_NODE == abi::MORTISE_MAX_GPUS_PER_NODE as usize);
    assert!(limits::MAX_NODES == abi::MORTISE_MAX_NODES as usize);
    assert!(limits::MAX_PODS_PER_NODE == abi::MORTISE_MAX_PODS_PER_NODE as usize);
    assert!(limits::MAX_MODELS == abi::MORTISE_MAX_MODELS as usize);
    assert!(limits::MAX_MODEL_NAME == abi::MORTISE_MAX_MODEL_NAME_BYTES as usize);
    assert!(limits::MAX_MIX_KINDS == abi::MORTISE_MAX_MIX_KINDS as usize);
    assert!(limits::MAX_MEMO_BYTES as u64 == abi::MORTISE_MAX_MEMO_BYTES);
    assert!(limits::CARD_MILLI as u32 == abi::MORTISE_MILLI_PER_GPU);
    assert!(MAX_MIG_KINDS == abi::MORTISE_MAX_MIG_KINDS as usize);
    assert!(MAX_MIG_PER_POD == abi::MORTISE_MAX_MIG_PER_POD as usize);
    assert!(Tier::Inference as u32 == abi::MORTISE_TIER_INFERENCE);
    assert!(Tier::Training as u32 == abi::MORTISE_TIER_TRAINING);
    assert!(Tier::Batch as u32 == abi::MORTISE_TIER_BATCH);
    assert!(NONE == abi::MORTISE_INDEX_NONE);
    assert!(MAX_POD_FACTS == abi::MORTISE_MAX_POD_FACTS as usize);
    assert!(MAX_GROUP_MEMBERS == abi::MORTISE_MAX_GROUP_PODS as usize);
    assert!(MAX_DECLARED_SECONDS == abi::MORTISE_MAX_DECLARED_SECONDS);
};

/// Where a value stands; written out only when it is wrong.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) array: &'static str,
    pub(crate) index: Option<usize>,
}

impl Place {
    pub(crate) const fn of(array: &'static str) -> Self {
        Self { array, index: None }
    }

    pub(crate) const fn at(array: &'static str, index: usize) -> Self {
        Self { array, index: Some(index) }
    }

    fn field(self, field: &str) -> String {
        match self.index {
            Some(index) => format!("{}[{index}].{field}", self.array),
            None => format!("{}.{field}", self.array),
        }
    }

    fn locate(self, error: Error) -> Fault {
        let mut fault = Fault::from(error);
        fault.message = self.field(&fault.message);
        fault
    }

    fn gpu(self, count: u16, milli: u16) -> Result<GpuRequest, Fault> {
        GpuRequest::new(count, milli).map_err(|error| self.locate(error))
    }

    fn tier(self, tier: u8) -> Result<Tier, Fault> {
        Tier::new(tier).ok_or_else(|| {
            Fault::invalid(self.field("tier"), tier, "it must be one of MORTISE_TIER_*: 0, 1, 2")
        })
    }

    fn flags(self, flags: u32, known: u32) -> Result<(), Fault> {
        if flags & !known == 0 {
            return Ok(());
        }
        check_flags(&self.field("flags"), flags, known)
    }

    fn reserved(self, value: u64) -> Result<(), Fault> {
        if value == 0 {
            return Ok(());
        }
        check_reserved(&self.field("reserved"), value)
    }
}

const fn uid(hi: u64, lo: u64) -> PodUid {
    PodUid((hi as u128) << 64 | lo as u128)
}

/// What a pod asks for, and whether it is a sample of the mix.
pub(crate) fn pod_request(
    place: Place,
    pod: &abi::mortise_pod_request,
) -> Result<(PodRequest, bool), Fault> {
    place.flags(pod.flags, abi::MORTISE_REQUEST_NO_LEARN)?;
    place.reserved(pod.reserved.iter().fold(0, |all, &byte| all | u64::from(byte)))?;
    let request = PodRequest {
        uid: uid(pod.uid_hi, pod.uid_lo),
        cpu: MilliCpu(pod.cpu_milli),
        memory: MemoryBytes(pod.memory_bytes),
        gpu: place.gpu(pod.gpu_count, pod.gpu_milli)?,
        models: ModelSet(pod.allowed_models),
        priority: Priority(pod.priority),
        tier: place.tier(pod.tier)?,
        mig: mig::request(place, "mig", &pod.mig)?,
    };
    request.validate().map_err(|error| place.locate(error))?;
    Ok((request, pod.flags & abi::MORTISE_REQUEST_NO_LEARN == 0))
}

/// A pod on a node.
pub(crate) fn pod_record(index: usize, pod: &abi::mortise_pod_record) -> Result<PodRecord, Fault> {
    const KNOWN: u32 = abi::MORTISE_POD_TERMINATING
        | abi::MORTISE_POD_FOREIGN
        | abi::MORTISE_POD_NO_LEARN
        | abi::MORTISE_POD_RESERVATION;
    let place = Place::at("request.pods", index);
    let flags = u32::from(pod.flags);
    place.flags(flags, KNOWN)?;
    let unknown = u8::try_from(pod.unknown_cards)
        .ok()
        .filter(|&cards| usize::from(cards) <= limits::MAX_GPUS_PER_NODE)
        .ok_or_else(|| {
            Fault::limit(place.field("unknown_cards"), pod.unknown_cards, limits::MAX_GPUS_PER_NODE)
        })?;
    Ok(PodRecord {
        uid: uid(pod.uid_hi, pod.uid_lo),
        priority: Priority(pod.priority),
        tier: place.tier(pod.tier)?,
        cpu: MilliCpu(pod.cpu_milli),
        memory: MemoryBytes(pod.memory_bytes),
        gpu: place.gpu(pod.gpu_count, pod.gpu_milli)?,
        devices: DeviceMask(pod.device_mask),
        unknown,
        start_seconds: pod.start_seconds,
        checkpoint_seconds: Some(pod.checkpoint_seconds)
            .filter(|&seconds| seconds != abi::MORTISE_CHECKPOINT_NONE),
        terminating: flags & abi::MORTISE_POD_TERMINATING != 0,
        foreign: flags & abi::MORTISE_POD_FOREIGN != 0,
        no_learn: flags & abi::MORTISE_POD_NO_LEARN != 0,
        reservation: flags & abi::MORTISE_POD_RESERVATION != 0,
        models: ModelSet(pod.allowed_models),
        mig: mig::held(place, pod)?,
    })
}

/// A node that is new or has changed.
pub(crate) fn node_delta(index: usize, node: &abi::mortise_node_delta) -> Result<NodeDelta, Fault> {
    let place = Place::at("request.upserts", index);
    let flags = u32::from(node.flags);
    place.flags(flags, abi::MORTISE_NODE_OFFERS_SHARES)?;
    let gpu_count = u8::try_from(node.gpu_count).map_err(|_| {
        Fault::limit(place.field("gpu_count"), node.gpu_count, limits::MAX_GPUS_PER_NODE)
    })?;
    let mut capacity = [MilliGpu::ZERO; limits::MAX_GPUS_PER_NODE];
    for (device, (to, &milli)) in capacity.iter_mut().zip(&node.gpu_capacity_milli).enumerate() {
        *to = MilliGpu::new(milli).ok_or_else(|| {
            Fault::invalid(
                place.field(&format!("gpu_capacity_milli[{device}]")),
                milli,
                "a device has 0..1000 milli",
            )
        })?;
    }
    let model = if node.model_id == abi::MORTISE_MODEL_NONE {
        ModelId::NONE
    } else {
        let id = u8::try_from(node.model_id)
            .ok()
            .filter(|&id| usize::from(id) < limits::MAX_MODELS)
            .ok_or_else(|| {
                Fault::invalid(
                    place.field("model_id"),
                    node.model_id,
                    "it must come from mortise_model_intern or be MORTISE_MODEL_NONE",
                )
            })?;
        ModelId(id)
    };
    Ok(NodeDelta {
        node: NodeRef::from_u64(node.node_ref),
        key: NodeKey(node.node_key),
        generation: Generation(node.generation),
        cpu_free: MilliCpu(node.cpu_free_milli),
        memory_free: MemoryBytes(node.memory_free_bytes),
        cpu_allocatable: MilliCpu(node.cpu_allocatable_milli),
        memory_allocatable: MemoryBytes(node.memory_allocatable_bytes),
        model,
        gpu_count,
        capacity,
        shares_offered: flags & abi::MORTISE_NODE_OFFERS_SHARES != 0,
        mig: mig::cards(place, node)?,
        first_pod: node.first_pod,
        pod_count: node.pod_count,
    })
}

/// A kind of the fixed mix with its count.
pub(crate) fn mix_kind(index: usize, kind: &abi::mortise_mix_kind) -> Result<(Kind, u64), Fault> {
    let place = Place::at("config.mix_kinds", index);
    place.reserved(u64::from(kind.reserved))?;
    if kind.count == 0 {
        return Err(Fault::invalid(place.field("count"), 0, "leave out kinds that do not occur"));
    }
    let gpu = place.gpu(kind.gpu_count, kind.gpu_milli)?;
    let kind_of_pod =
        Kind { cpu: MilliCpu(kind.cpu_milli), gpu, models: ModelSet(kind.allowed_models) };
    Ok((kind_of_pod, kind.count))
}

/// What planning must know of a running pod.
pub(crate) fn pod_facts(index: usize, facts: &abi::mortise_pod_facts) -> Result<PodFacts, Fault> {
    let place = Place::at("request.facts", index);
    place.flags(facts.flags, abi::MORTISE_FACTS_CONSENT)?;
    place.reserved(u64::from(facts.reserved))?;
    Ok(PodFacts {
        uid: uid(facts.uid_hi, facts.uid_lo),
        gang: facts.gang,
        tenant: facts.tenant,
        first_budget: facts.first_budget,
        budget_count: facts.budget_count,
        unsaved_evictions: facts.unsaved_evictions,
        save_seconds: Some(facts.save_seconds)
            .filter(|&seconds| seconds != abi::MORTISE_SAVES_NEVER),
        restart_seconds: facts.restart_seconds,
        grace_seconds: facts.grace_seconds,
        consent: facts.flags & abi::MORTISE_FACTS_CONSENT != 0,
    })
}

/// A gang of running pods.
pub(crate) fn gang(index: usize, gang: &abi::mortise_gang) -> Result<Gang, Fault> {
    Place::at("request.gangs", index).flags(gang.flags, abi::MORTISE_GANG_WHOLE)?;
    let whole = gang.flags & abi::MORTISE_GANG_WHOLE != 0;
    Ok(Gang {
        disruption: if whole { Disruption::All } else { Disruption::Single },
        min_members: gang.min_members,
    })
}
