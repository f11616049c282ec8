//! The simulator's own book of the cluster: it feeds the kernel changed nodes and checks every decision against its own
//! figures.

use mortise_core::cluster::FreeShape;
use mortise_core::limits::MAX_GPUS_PER_NODE;
use mortise_core::{
    DeviceMask, Generation, MemoryBytes, MilliCpu, MilliGpu, ModelId, ModelSet, NodeDelta, NodeKey,
    NodeRef, PodRecord, PodRequest,
};

use crate::trace::NodeSpec;

/// Memory as the kernel counts it; `mib` is within the bounds of a trace.
pub(super) fn memory_bytes(mib: i64) -> MemoryBytes {
    MemoryBytes(mib << 20)
}

struct Node {
    key: NodeKey,
    reference: NodeRef,
    generation: i64,
    cpu_allocatable: MilliCpu,
    memory_allocatable: MemoryBytes,
    memory_free: MemoryBytes,
    shape: FreeShape,
    capacity: [MilliGpu; MAX_GPUS_PER_NODE],
    pods: Vec<PodRecord>,
}

/// All nodes of one run.
pub(super) struct SimCluster {
    nodes: Vec<Node>,
    used_milli: u64,
}

impl SimCluster {
    /// The empty cluster; `models` has one entry per node. Keys follow the order of names, not that of the file.
    pub(super) fn new(specs: &[NodeSpec], models: &[ModelId]) -> SimCluster {
        let mut by_name: Vec<usize> = (0..specs.len()).collect();
        by_name.sort_by(|&a, &b| specs[a].name.cmp(&specs[b].name));
        let keyed = by_name.iter().zip((1..).map(NodeKey));
        let nodes =
            keyed.map(|(&spec, key)| Node::empty(&specs[spec], models[spec], key)).collect();
        SimCluster { nodes, used_milli: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn used_milli(&self) -> u64 {
        self.used_milli
    }

    pub(super) fn shape(&self, node: usize) -> &FreeShape {
        &self.nodes[node].shape
    }

    /// Takes over the kernel's references of all nodes, in order.
    pub(super) fn set_references(&mut self, references: &[NodeRef]) {
        for (node, &reference) in self.nodes.iter_mut().zip(references) {
            node.reference = reference;
        }
    }

    /// The node that `reference` means. The kernel numbers new nodes in upsert order, so the guess is right at once.
    pub(super) fn find(&self, reference: NodeRef) -> Option<usize> {
        let guess = reference.index as usize;
        if self.nodes.get(guess).is_some_and(|node| node.reference == reference) {
            return Some(guess);
        }
        self.nodes.iter().position(|node| node.reference == reference)
    }

    /// The whole content of a node for the kernel; its pods are appended to `pods`.
    pub(super) fn delta(&self, node: usize, pods: &mut Vec<PodRecord>) -> NodeDelta {
        let node = &self.nodes[node];
        let first_pod = pods.len() as u32;
        pods.extend_from_slice(&node.pods);
        NodeDelta {
            node: node.reference,
            key: node.key,
            generation: Generation(node.generation),
            cpu_free: node.shape.cpu_free,
            memory_free: node.memory_free,
            cpu_allocatable: node.cpu_allocatable,
            memory_allocatable: node.memory_allocatable,
            model: node.shape.model,
            gpu_count: node.shape.gpu_count,
            capacity: node.capacity,
            shares_offered: true,
            mig: Default::default(),
            first_pod,
            pod_count: node.pods.len() as u32,
        }
    }

    /// Whether `pod` fits on any node.
    pub(super) fn fits_somewhere(&self, pod: &PodRequest) -> bool {
        self.nodes.iter().any(|node| {
            let roomy = node.shape.levels().iter().filter(|&&free| free >= pod.gpu.milli());
            node.fits_apart_from_devices(pod) && roomy.count() >= usize::from(pod.gpu.count())
        })
    }

    /// Places a pod, or returns false and changes nothing where the placement breaks a rule.
    #[must_use]
    pub(super) fn place(&mut self, node: usize, pod: &PodRequest, devices: DeviceMask) -> bool {
        let node = &mut self.nodes[node];
        let levels = node.shape.levels();
        let has_room = |device| levels.get(device).is_some_and(|&free| free >= pod.gpu.milli());
        let right_count = devices.iter().count() == usize::from(pod.gpu.count());
        if !node.fits_apart_from_devices(pod) || !right_count || !devices.iter().all(has_room) {
            return false;
        }
        self.used_milli += u64::from(pod.gpu.total_milli());
        node.shape = node.shape.after(pod.cpu, pod.gpu.milli(), devices);
        node.memory_free = MemoryBytes(node.memory_free.0 - pod.memory.0);
        node.generation += 1;
        let record = PodRecord::new(pod.uid, pod.gpu, devices);
        let (cpu, memory, models) = (pod.cpu, pod.memory, pod.models);
        node.pods.push(PodRecord { cpu, memory, models, ..record });
        true
    }
}

impl Node {
    fn empty(spec: &NodeSpec, model: ModelId, key: NodeKey) -> Node {
        let mut free = [MilliGpu::ZERO; MAX_GPUS_PER_NODE];
        free[..usize::from(spec.gpus)].fill(MilliGpu::CARD);
        let (cpu, memory) = (MilliCpu(spec.cpu_milli), memory_bytes(spec.memory_mib));
        Node {
            key,
            reference: NodeRef::NIL,
            generation: 1,
            cpu_allocatable: cpu,
            memory_allocatable: memory,
            memory_free: memory,
            shape: FreeShape { model, gpu_count: spec.gpus, free, cpu_free: cpu },
            capacity: free,
            pods: Vec::new(),
        }
    }

    fn fits_apart_from_devices(&self, pod: &PodRequest) -> bool {
        let models = if pod.gpu.is_none() { ModelSet::ANY } else { pod.models };
        let model_fits = models.contains(self.shape.model);
        model_fits && self.shape.cpu_free >= pod.cpu && self.memory_free >= pod.memory
    }
}
