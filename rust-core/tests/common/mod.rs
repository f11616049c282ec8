//! Random clusters and the model of them that tests keep beside the kernel's.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses a part of this module")]

pub mod twin;

use std::collections::BTreeMap;

use mortise_core::cluster::MigCard;
use mortise_core::hash::mix64;
use mortise_core::limits::MAX_GPUS_PER_NODE;
use mortise_core::mig::{GPU_MODELS, MigInstance, MigRequest, PROFILE_NAME_COUNT, ProfileName};
use mortise_core::{
    DeviceMask, Error, Generation, GpuRequest, Kernel, MemoryBytes, MilliCpu, MilliGpu, ModelId,
    ModelSet, NodeDelta, NodeKey, NodeRef, PodRecord, PodRequest, PodUid, Priority, SyncBatch,
    SyncReport, Tier,
};
use proptest::collection::vec;
use proptest::prelude::*;

pub const MODELS: [&str; 3] = ["A100", "T4", "V100"];

/// A node and its pods as the caller knows them.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub delta: NodeDelta,
    pub pods: Vec<PodRecord>,
}

/// What a test does to a cluster.
#[derive(Clone, Debug)]
pub enum Step {
    Upsert(Vec<Node>),
    Remove(u64),
    Resync,
    Arrive { pod: PodRequest, salt: u64, listed: Option<u16>, outcome: Outcome },
}

/// What becomes of a pod after a decision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    Bound,
    Reserved,
    Dropped,
}

pub fn gpu_request() -> impl Strategy<Value = GpuRequest> {
    prop_oneof![
        1 => Just(GpuRequest::None),
        3 => (1u8..=4).prop_map(|count| GpuRequest::Whole { count }),
        4 => prop::sample::select(vec![100, 250, 500, 810, 999])
            .prop_map(|milli| GpuRequest::Share { milli: MilliGpu::clamped(milli) }),
    ]
}

pub fn models() -> impl Strategy<Value = ModelSet> {
    prop_oneof![
        6 => Just(ModelSet::ANY),
        2 => Just(ModelSet(0b001)),
        1 => Just(ModelSet(0b011)),
        1 => Just(ModelSet::EMPTY),
    ]
}

pub fn pod_request() -> impl Strategy<Value = PodRequest> {
    let cpu = prop::sample::select(vec![0, 500, 1_000, 4_000]);
    let memory = prop::sample::select(vec![0, 0, 1, 10]);
    (0u128..24, cpu, memory, gpu_request(), models(), 0i32..3, 0u8..3).prop_map(
        |(uid, cpu, memory, gpu, models, priority, tier)| PodRequest {
            uid: PodUid(uid),
            cpu: MilliCpu(cpu),
            memory: MemoryBytes(memory),
            gpu,
            models,
            priority: Priority(priority),
            tier: Tier::new(tier).expect("0..3"),
            mig: Default::default(),
        },
    )
}

/// A record on a node of `gpu_count` devices; cards without a device on the node are unknown.
pub fn pod_record(gpu_count: u8) -> impl Strategy<Value = PodRecord> {
    (pod_request(), any::<u16>(), any::<u8>(), prop::option::of(0i64..100)).prop_map(
        move |(pod, bits, flags, checkpoint_seconds)| {
            let mut devices = DeviceMask::EMPTY;
            for device in 0..usize::from(gpu_count) {
                if bits >> device & 1 == 1 && devices.count() < u32::from(pod.gpu.count()) {
                    devices = devices.with(device);
                }
            }
            PodRecord {
                priority: pod.priority,
                tier: pod.tier,
                cpu: pod.cpu,
                memory: pod.memory,
                unknown: pod.gpu.count() - devices.count() as u8,
                start_seconds: i64::from(flags),
                checkpoint_seconds,
                terminating: flags & 1 != 0,
                foreign: flags & 2 != 0,
                no_learn: flags & 4 != 0,
                reservation: flags & 0b11000 == 0b11000,
                models: pod.models,
                ..PodRecord::new(pod.uid, pod.gpu, devices)
            }
        },
    )
}

pub fn node() -> impl Strategy<Value = Node> {
    let size = prop_oneof![1 => Just(0u8), 8 => 1u8..=4, 1 => Just(16u8)];
    let figures = (-1_000i64..12_000, -5i64..40, 0i64..16_000, 0i64..50);
    let looks = (prop::option::of(0u8..3), 0u8..10, any::<u32>());
    let mig = prop_oneof![2 => Just(0u64), 1 => any::<u64>()];
    (1u64..8, size, figures, looks, mig).prop_flat_map(|(key, gpu_count, figures, looks, mig)| {
        vec(pod_record(gpu_count), 0..4).prop_map(move |mut pods| {
            pods.sort_by_key(|pod| pod.uid);
            pods.dedup_by_key(|pod| pod.uid);
            // Not in uid order: the kernel sorts.
            pods.reverse();
            let mut capacity = [MilliGpu::ZERO; MAX_GPUS_PER_NODE];
            for (device, capacity) in capacity[..usize::from(gpu_count)].iter_mut().enumerate() {
                *capacity = match looks.2 >> (2 * device) & 3 {
                    0 if device == 3 => MilliGpu::ZERO,
                    1 if device == 2 => MilliGpu::clamped(600),
                    _ => MilliGpu::CARD,
                };
            }
            let delta = NodeDelta {
                node: NodeRef::NIL,
                key: NodeKey(key),
                generation: Generation(0),
                cpu_free: MilliCpu(figures.0),
                memory_free: MemoryBytes(figures.1),
                cpu_allocatable: MilliCpu(figures.2),
                memory_allocatable: MemoryBytes(figures.3),
                model: looks.0.map_or(ModelId::NONE, ModelId),
                gpu_count,
                capacity,
                shares_offered: looks.1 > 0,
                mig: Default::default(),
                first_pod: 0,
                pod_count: 0,
            };
            let mut node = Node { delta, pods };
            enter_mig_mode(&mut node, mig);
            node
        })
    })
}

/// Puts some devices in MIG mode and lets pods hold instances, known and unknown, that may not all fit. 0: none.
fn enter_mig_mode(node: &mut Node, seed: u64) {
    if seed == 0 {
        return;
    }
    let mut state = seed;
    let mut draw = |below: u64| {
        state = mix64(state);
        state % below
    };
    for device in 0..usize::from(node.delta.gpu_count) {
        let held = node.pods.iter().any(|pod| pod.devices.contains(device));
        if held || draw(2) == 0 {
            continue;
        }
        let model = draw(GPU_MODELS.len() as u64) as usize;
        let places: usize = GPU_MODELS[model].profiles.iter().map(|p| p.starts.len()).sum();
        let mask = if draw(2) == 0 { u64::MAX } else { draw(u64::MAX) };
        let offered = (mask & ((1 << places) - 1)) as u32;
        node.delta.capacity[device] = MilliGpu::ZERO;
        node.delta.mig[device] = MigCard::new(model, offered).expect("of the table");
        for pod in &mut node.pods {
            if draw(2) == 0 {
                let placement = draw(places as u64) as u8;
                pod.mig.known.push(MigInstance { device: device as u8, placement });
                pod.mig.known = pod.mig.known.sorted();
            }
        }
    }
    for pod in &mut node.pods {
        if draw(3) == 0 {
            let profile = ProfileName(draw(PROFILE_NAME_COUNT as u64) as u8);
            pod.mig.unknown = MigRequest::of(profile, draw(3) as u8).expect("few");
        }
    }
}

pub fn step() -> impl Strategy<Value = Step> {
    let outcome = prop_oneof![
        6 => Just(Outcome::Bound),
        2 => Just(Outcome::Reserved),
        2 => Just(Outcome::Dropped),
    ];
    let salt = prop_oneof![Just(0u64), any::<u64>()];
    prop_oneof![
        2 => vec(node(), 1..4).prop_map(Step::Upsert),
        1 => (1u64..8).prop_map(Step::Remove),
        1 => Just(Step::Resync),
        12 => (pod_request(), salt, prop::option::of(any::<u16>()), outcome)
            .prop_map(|(pod, salt, listed, outcome)| Step::Arrive { pod, salt, listed, outcome }),
    ]
}

pub fn new_kernel(config: mortise_core::Config) -> Kernel {
    let mut kernel = Kernel::new(config).expect("a valid configuration");
    for name in MODELS {
        kernel.intern_model(name).expect("a valid name");
    }
    kernel
}

/// The caller's side: nodes by key with the references the kernel gave out.
#[derive(Clone, Debug, Default)]
pub struct Model {
    pub nodes: BTreeMap<u64, Node>,
    pub refs: BTreeMap<u64, NodeRef>,
    generation: i64,
}

/// Upserts and pods laid out as a batch wants them.
pub fn lay_out<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> (Vec<NodeDelta>, Vec<PodRecord>) {
    let (mut upserts, mut pods) = (Vec::new(), Vec::new());
    for node in nodes {
        upserts.push(NodeDelta {
            first_pod: pods.len() as u32,
            pod_count: node.pods.len() as u32,
            ..node.delta
        });
        pods.extend_from_slice(&node.pods);
    }
    (upserts, pods)
}

impl Model {
    /// Puts nodes (one per key) into the model and the kernel.
    pub fn upsert(
        &mut self,
        kernel: &mut Kernel,
        nodes: &[Node],
        arrival: Option<PodRequest>,
    ) -> SyncReport {
        let mut latest = BTreeMap::new();
        for node in nodes {
            latest.insert(node.delta.key.0, node.clone());
        }
        for (key, node) in &mut latest {
            self.generation += 1;
            node.delta.generation = Generation(self.generation);
            // By reference where there is one, by key now and then.
            let by_key = self.generation % 3 == 0;
            let known = self.refs.get(key).copied().filter(|_| !by_key);
            node.delta.node = known.unwrap_or(NodeRef::NIL);
        }
        let (upserts, pods) = lay_out(latest.values());
        let mut refs = vec![NodeRef::NIL; upserts.len()];
        let batch = SyncBatch { upserts: &upserts, pods: &pods, arrival, ..Default::default() };
        let report = kernel.sync(&batch, &mut refs).expect("a valid batch");
        for ((key, node), node_ref) in latest.into_iter().zip(refs) {
            self.refs.insert(key, node_ref);
            self.nodes.insert(key, node);
        }
        report
    }

    pub fn remove(&mut self, kernel: &mut Kernel, key: u64) {
        if let Some(node_ref) = self.refs.remove(&key) {
            self.nodes.remove(&key);
            let batch = SyncBatch { removals: &[node_ref], ..Default::default() };
            assert_eq!(kernel.sync(&batch, &mut []).expect("a live node").removed, 1);
            let stale = kernel.sync(&batch, &mut []).expect_err("it is gone");
            assert!(matches!(stale, Error::StaleNode { .. }), "{stale}");
        }
    }

    /// Sends everything to the kernel as one full batch.
    pub fn resync(&mut self, kernel: &mut Kernel) {
        let (mut upserts, pods) = lay_out(self.nodes.values());
        upserts.iter_mut().for_each(|delta| delta.node = NodeRef::NIL);
        let mut refs = vec![NodeRef::NIL; upserts.len()];
        let batch = SyncBatch { full: true, upserts: &upserts, pods: &pods, ..Default::default() };
        kernel.sync(&batch, &mut refs).expect("a valid batch");
        self.refs = self.nodes.keys().copied().zip(refs).collect();
    }

    /// Lets a placed pod hold its devices on a node.
    pub fn place(
        &mut self,
        kernel: &mut Kernel,
        pod: &PodRequest,
        node: NodeRef,
        devices: DeviceMask,
        outcome: Outcome,
    ) {
        if outcome == Outcome::Dropped {
            return;
        }
        let key = kernel.cluster().key(node.index as usize).0;
        let mut changed = self.nodes[&key].clone();
        changed.pods.retain(|held| held.uid != pod.uid);
        let reservation = outcome == Outcome::Reserved;
        if !reservation {
            changed.delta.cpu_free.0 -= pod.cpu.0;
            changed.delta.memory_free.0 -= pod.memory.0;
        }
        changed.pods.push(PodRecord {
            priority: pod.priority,
            cpu: pod.cpu,
            memory: pod.memory,
            reservation,
            ..PodRecord::new(pod.uid, pod.gpu, devices)
        });
        self.upsert(kernel, &[changed], None);
    }

    /// The listed nodes of a step: those whose bit is set, with one named twice now and then.
    pub fn listed(&self, bits: u16) -> Vec<NodeRef> {
        self.refs
            .values()
            .enumerate()
            .filter(|(i, _)| bits >> i & 1 == 1)
            .map(|(_, &r)| r)
            .collect()
    }
}
