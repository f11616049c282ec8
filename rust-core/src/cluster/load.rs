//! Reads the canonical form back: a captured state replays in a fresh cluster.

use super::dump::{
    MAGIC, NO_MODEL, NODE_SHARES_OFFERED, POD_FOREIGN, POD_HAS_CHECKPOINT, POD_NO_LEARN,
    POD_RESERVATION, POD_TERMINATING,
};
use super::reader::Reader;
use super::{Cluster, MigCard, NodeDelta, PodRecord, SyncBatch};
use crate::error::Error;
use crate::limits::{MAX_GPUS_PER_NODE, MAX_MODELS, MAX_NODES, MAX_PODS_PER_NODE};
use crate::mig::{
    MAX_MIG_KINDS, MAX_MIG_PER_POD, MigHeld, MigInstance, MigInstances, MigKind, MigRequest,
    ProfileName,
};
use crate::request::GpuRequest;
use crate::units::{
    DeviceMask, Generation, MemoryBytes, MilliCpu, MilliGpu, ModelId, ModelSet, NodeKey, NodeRef,
    PodUid, Priority, Tier,
};

impl Cluster {
    /// Replaces all nodes by those of the bytes of [`Cluster::canonical_bytes`]. Node generations are 0 and pods allow
    /// any model then: both are no part of the state.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] or [`Error::LimitExceeded`] naming what is wrong and where, [`Error::OutOfMemory`];
    /// nothing is changed then.
    pub fn load_canonical(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let mut reader = Reader::new("state bytes", bytes);
        if reader.take::<4>("the magic number")? != MAGIC {
            return Err(Error::invalid(
                "state bytes",
                format!("{:02x?}...", &bytes[..4]),
                "they do not start with MCS2: give bytes exported by this version",
            ));
        }
        let names = reader.names("model", MAX_MODELS)?;
        let count = reader.u32("the number of nodes")? as usize;
        reader.bounded("number of nodes", count, MAX_NODES)?;
        let (mut upserts, mut pods) = (Vec::new(), Vec::new());
        reserve("nodes", &mut upserts, count)?;
        for _ in 0..count {
            upserts.push(read_node(&mut reader, names.len(), &mut pods)?);
        }
        reader.end()?;
        // On a copy, so that a mistake further on leaves no name behind.
        let mut table = self.models().clone();
        let mut models = Vec::new();
        for name in names {
            models.push(table.intern(name)?);
        }
        for delta in upserts.iter_mut().filter(|delta| delta.model != ModelId::NONE) {
            delta.model = models[usize::from(delta.model.0)];
        }
        let batch = SyncBatch { full: true, upserts: &upserts, pods: &pods, ..Default::default() };
        let mut refs = Vec::new();
        reserve("node references", &mut refs, upserts.len())?;
        refs.resize(upserts.len(), NodeRef::NIL);
        let before = std::mem::replace(self.models_mut(), table);
        let outcome = self.sync(&batch, &mut refs);
        if outcome.is_err() {
            *self.models_mut() = before;
        }
        outcome.map(|_| ())
    }
}

fn reserve<T>(what: &'static str, list: &mut Vec<T>, count: usize) -> Result<(), Error> {
    list.try_reserve(count).map_err(|_| Error::OutOfMemory { what, bytes: count * size_of::<T>() })
}

/// The node's model is the position of its name in the bytes.
fn read_node(
    reader: &mut Reader<'_>,
    models: usize,
    pods: &mut Vec<PodRecord>,
) -> Result<NodeDelta, Error> {
    let key = NodeKey(reader.u64("a node key")?);
    let cpu_free = MilliCpu(reader.i64("free CPU")?);
    let memory_free = MemoryBytes(reader.i64("free memory")?);
    let cpu_allocatable = MilliCpu(reader.i64("allocatable CPU")?);
    let memory_allocatable = MemoryBytes(reader.i64("allocatable memory")?);
    let [model, flags, gpu_count] = reader.take("a node's model")?;
    let model = match model {
        NO_MODEL => ModelId::NONE,
        rank if usize::from(rank) < models => ModelId(rank),
        rank => return Err(reader.invalid("model number", rank, "the list of models is shorter")),
    };
    reader.bounded("number of devices", usize::from(gpu_count), MAX_GPUS_PER_NODE)?;
    let mut capacity = [MilliGpu::ZERO; MAX_GPUS_PER_NODE];
    for device in &mut capacity[..usize::from(gpu_count)] {
        let milli = reader.u16("a device's capacity")?;
        *device = MilliGpu::new(milli)
            .ok_or_else(|| reader.invalid("device capacity", milli, "at most 1000 milli"))?;
    }
    let mut mig = [MigCard::NONE; MAX_GPUS_PER_NODE];
    for card in &mut mig[..usize::from(gpu_count)] {
        let model = reader.u8("a card's MIG model")?;
        if model > 0 {
            *card = MigCard::new(usize::from(model) - 1, reader.u32("a card's MIG places")?)?;
        }
    }
    let pod_count = reader.u16("the number of pods")?;
    reader.bounded("number of pods", usize::from(pod_count), MAX_PODS_PER_NODE)?;
    let first_pod = pods.len() as u32;
    reserve("pods", pods, usize::from(pod_count))?;
    for _ in 0..pod_count {
        pods.push(read_pod(reader)?);
    }
    Ok(NodeDelta {
        node: NodeRef::NIL,
        key,
        generation: Generation(0),
        cpu_free,
        memory_free,
        cpu_allocatable,
        memory_allocatable,
        model,
        gpu_count,
        capacity,
        shares_offered: flags & NODE_SHARES_OFFERED != 0,
        mig,
        first_pod,
        pod_count: u32::from(pod_count),
    })
}

fn read_pod(reader: &mut Reader<'_>) -> Result<PodRecord, Error> {
    let uid = PodUid(u128::from_le_bytes(reader.take("a pod uid")?));
    let cpu = MilliCpu(reader.i64("a pod's CPU")?);
    let memory = MemoryBytes(reader.i64("a pod's memory")?);
    let start_seconds = reader.i64("a pod's start")?;
    let checkpoint = reader.i64("a pod's checkpoint")?;
    let priority = Priority(i32::from_le_bytes(reader.take("a pod's priority")?));
    let milli = reader.u16("a pod's GPU")?;
    let devices = DeviceMask(reader.u16("a pod's devices")?);
    let [count, unknown, tier, flags] = reader.take("a pod's flags")?;
    let mig = read_mig(reader)?;
    Ok(PodRecord {
        uid,
        priority,
        tier: Tier::new(tier).ok_or_else(|| reader.invalid("tier", tier, "0, 1 or 2"))?,
        cpu,
        memory,
        gpu: GpuRequest::new(u16::from(count), milli)?,
        devices,
        unknown,
        start_seconds,
        checkpoint_seconds: (flags & POD_HAS_CHECKPOINT != 0).then_some(checkpoint),
        terminating: flags & POD_TERMINATING != 0,
        foreign: flags & POD_FOREIGN != 0,
        no_learn: flags & POD_NO_LEARN != 0,
        reservation: flags & POD_RESERVATION != 0,
        models: ModelSet::ANY,
        mig,
    })
}

fn read_mig(reader: &mut Reader<'_>) -> Result<MigHeld, Error> {
    let [known_count, kind_count] = reader.take("the number of a pod's MIG instances")?;
    reader.bounded("number of MIG instances", usize::from(known_count), MAX_MIG_PER_POD)?;
    reader.bounded("number of MIG profiles", usize::from(kind_count), MAX_MIG_KINDS)?;
    let mut known = MigInstances::NONE;
    for _ in 0..known_count {
        let [device, placement] = reader.take("a MIG instance")?;
        known.push(MigInstance { device, placement });
    }
    let mut kinds = [MigKind::default(); MAX_MIG_KINDS];
    for kind in &mut kinds[..usize::from(kind_count)] {
        let [profile, count] = reader.take("a MIG profile")?;
        *kind = MigKind { profile: ProfileName(profile), count };
    }
    Ok(MigHeld { known: known.sorted(), unknown: MigRequest::new(&kinds)? })
}
