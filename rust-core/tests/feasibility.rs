//! Feasibility and its reasons against brute force, and the sentence people read.

mod common;

use common::{Model, Node, new_kernel, node, pod_request, twin};
use mortise_core::cluster::NodeView;
use mortise_core::filter::{check, feasible};
use mortise_core::{
    Candidates, Config, GpuRequest, MilliCpu, MilliGpu, NodeReason, NodeRef, PodRequest, Reason,
    Unfit,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// Whether some set of devices of the right size has room: tries every set.
fn some_devices_fit(node: &NodeView, pod: &PodRequest) -> bool {
    let count = node.shape.levels().len();
    (0u32..1 << count).any(|set| {
        set.count_ones() == u32::from(pod.gpu.count())
            && (0..count).all(|d| set >> d & 1 == 0 || node.shape.free[d] >= pod.gpu.milli())
    })
}

/// Whether the stated reason is true of the node.
fn is_true(unfit: Unfit, node: &NodeView, pod: &PodRequest) -> bool {
    let idle: i64 = node.shape.levels().iter().map(|milli| i64::from(milli.get())).sum();
    let whole = node.shape.levels().iter().filter(|&&milli| milli == MilliGpu::CARD).count() as i64;
    let largest = node.shape.levels().iter().max().map_or(0, |milli| i64::from(milli.get()));
    let total = i64::from(pod.gpu.total_milli());
    let cards = i64::from(pod.gpu.count());
    let figures = (unfit.need, unfit.have, unfit.largest_free);
    match unfit.reason {
        Reason::ModelMismatch => !pod.models.contains(node.shape.model) && figures == (0, 0, 0),
        Reason::NoGpu => node.shape.gpu_count == 0 && figures == (cards, 0, 0),
        Reason::InsufficientCpu => {
            figures == (pod.cpu.0, node.shape.cpu_free.0, 0) && unfit.need > unfit.have
        }
        Reason::InsufficientMemory => {
            figures == (pod.memory.0, node.memory_free.0, 0) && unfit.need > unfit.have
        }
        Reason::InsufficientWholeCards => {
            figures == (cards, whole, 0) && cards > whole && idle >= total
        }
        Reason::NoCardFitsShare => {
            figures == (total, idle, largest) && idle >= total && largest < total
        }
        Reason::InsufficientGpu => figures == (total, idle, 0) && idle < total,
        Reason::SharesNotOffered => !node.shares_offered && figures == (0, 0, 0),
        Reason::TooFewCards => {
            figures == (cards, i64::from(node.shape.gpu_count), 0) && unfit.need > unfit.have
        }
        Reason::NoNode => false,
        // The requests of this test ask for no MIG instance.
        Reason::NoMigProfile
        | Reason::NoLegalMigStart
        | Reason::InsufficientMigSlices
        | Reason::InsufficientMigInstances => false,
    }
}

/// Nodes, wholly free cards and free milli that count for a pod, from the levels alone.
fn naive_free(kernel: &mortise_core::Kernel, pod: &PodRequest) -> (u32, u32, u64) {
    let (mut nodes, mut cards, mut milli) = (0, 0, 0);
    for node in kernel.cluster().nodes() {
        let view = kernel.cluster().view_for(node.index as usize, pod.uid, pod.priority);
        let levels: Vec<u64> =
            view.shape.levels().iter().map(|free| u64::from(free.get())).collect();
        let wants = match pod.gpu {
            GpuRequest::None => false,
            GpuRequest::Whole { .. } => true,
            GpuRequest::Share { .. } => view.shares_offered,
        };
        if wants && !levels.is_empty() && pod.models.contains(view.shape.model) {
            nodes += 1;
            cards += levels.iter().filter(|&&free| free == 1000).count() as u32;
            milli += levels.iter().sum::<u64>();
        }
    }
    (nodes, cards, milli)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn feasibility_is_that_of_brute_force(nodes in vec(node(), 1..6), pod in pod_request()) {
        let mut kernel = new_kernel(Config::default());
        let mut model = Model::default();
        model.upsert(&mut kernel, &nodes, None);
        let mut listed = vec![
            NodeReason {
                node: NodeRef::NIL,
                unfit: Unfit { reason: Reason::NoNode, need: 0, have: 0, largest_free: 0 },
            };
            kernel.cluster().len()
        ];
        let count = kernel.reasons(&pod, &mut listed);
        prop_assert_eq!(kernel.reasons(&pod, &mut []), count);
        listed.truncate(count);
        let explanation = kernel.explain(&pod);
        for node_ref in kernel.cluster().nodes() {
            let view = kernel.cluster().view_for(node_ref.index as usize, pod.uid, pod.priority);
            let fits = twin::fits(&view, &pod);
            prop_assert_eq!(feasible(&view, &pod).is_ok(), fits);
            if fits {
                prop_assert!(some_devices_fit(&view, &pod));
            }
            let reason = listed.iter().find(|entry| entry.node == node_ref);
            prop_assert_eq!(reason.is_none(), fits);
            if let Some(entry) = reason {
                prop_assert_eq!(check(&view, &pod), Err(entry.unfit));
                prop_assert!(is_true(entry.unfit, &view, &pod), "{:?} of {:?}", entry.unfit, view);
            }
        }
        let free = naive_free(&kernel, &pod);
        prop_assert_eq!((explanation.free.nodes, explanation.free.cards, explanation.free.milli), free);
        let every: Vec<_> = kernel.cluster().nodes().collect();
        let among = kernel.explain_among(&pod, Candidates::Refs(&every)).unwrap();
        prop_assert_eq!(&among, &explanation);
        let counted: u32 = explanation.counts.iter().map(|&(_, count)| count).sum();
        prop_assert_eq!(counted as usize, count);
        prop_assert_eq!((explanation.feasible + counted) as usize, kernel.cluster().len());
    }
}

#[test]
fn the_sentence_counts_reasons_and_names_the_largest_hole() {
    let mut kernel = new_kernel(Config::default());
    let mut model = Model::default();
    let base = Node {
        delta: mortise_core::NodeDelta {
            node: NodeRef::NIL,
            key: mortise_core::NodeKey(1),
            generation: mortise_core::Generation(0),
            cpu_free: MilliCpu(8_000),
            memory_free: mortise_core::MemoryBytes(1 << 30),
            cpu_allocatable: MilliCpu(8_000),
            memory_allocatable: mortise_core::MemoryBytes(1 << 30),
            model: mortise_core::ModelId(0),
            gpu_count: 4,
            capacity: std::array::from_fn(|d| if d < 4 { MilliGpu::CARD } else { MilliGpu::ZERO }),
            shares_offered: true,
            mig: Default::default(),
            first_pod: 0,
            pod_count: 0,
        },
        pods: vec![],
    };
    let with = |key: u64, change: &dyn Fn(&mut Node)| {
        let mut node = base.clone();
        node.delta.key = mortise_core::NodeKey(key);
        change(&mut node);
        node
    };
    let share = GpuRequest::Share { milli: MilliGpu::clamped(10) };
    let scratched = mortise_core::PodRecord::new(
        mortise_core::PodUid(1),
        share,
        mortise_core::DeviceMask::only(0),
    );
    model.upsert(
        &mut kernel,
        &[
            with(1, &|node| node.delta.gpu_count = 0),
            with(2, &|node| node.pods.push(scratched)),
            with(3, &|node| node.pods.push(scratched)),
            with(4, &|node| node.delta.cpu_free = MilliCpu(10)),
        ]
        .map(|mut node| {
            if node.delta.gpu_count == 0 {
                node.delta.capacity = [MilliGpu::ZERO; 16];
            }
            node
        }),
        None,
    );
    let pod = PodRequest {
        uid: mortise_core::PodUid(9),
        cpu: MilliCpu(1_000),
        memory: mortise_core::MemoryBytes(0),
        gpu: GpuRequest::Whole { count: 4 },
        models: mortise_core::ModelSet::ANY,
        priority: mortise_core::Priority(0),
        tier: mortise_core::Tier::Batch,
        mig: Default::default(),
    };
    let text = kernel.explain(&pod).to_string();
    assert_eq!(
        text,
        "0/4 nodes are available: 2 Insufficient GPU, 1 node(s) didn't have GPUs, 1 Insufficient cpu. \
         10 GPUs free on 3 nodes, largest hole 4, 1.98 more in parts of cards."
    );
    let room = |gpu| kernel.explain(&PodRequest { gpu, ..pod }).room().to_string();
    assert_eq!(room(GpuRequest::None), "");
    assert_eq!(
        room(GpuRequest::Share { milli: MilliGpu::clamped(500) }),
        "11.98 GPUs free on 3 nodes, largest hole 100 % of a card"
    );
    let all: Vec<_> = kernel.cluster().nodes().collect();
    let among = |nodes: &[NodeRef], gpu| {
        kernel.explain_among(&PodRequest { gpu, ..pod }, Candidates::Refs(nodes)).map(|e| {
            assert_eq!(e.nodes as usize, nodes.len());
            e.room().to_string()
        })
    };
    let whole = GpuRequest::Whole { count: 4 };
    assert_eq!(among(&all[..1], whole).unwrap(), "no GPU of an allowed model on 1 node");
    assert_eq!(
        among(&all[1..2], whole).unwrap(),
        "3 GPUs free on 1 node, largest hole 3, 0.99 more in parts of cards"
    );
    assert_eq!(among(&[], whole).unwrap(), "no GPU of an allowed model on 0 nodes");
    assert!(among(&[NodeRef::NIL], whole).is_err());
}
