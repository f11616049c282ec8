//! The hot path allocates nothing once its buffers have grown.

mod common;

use allocation_counter::measure;
use common::{Model, Node, new_kernel, node};
use mortise_core::{
    Candidates, Config, DeviceMask, GpuRequest, Kernel, MemoryBytes, MilliCpu, MilliGpu, ModelSet,
    NodeRef, NodeScore, PodRecord, PodRequest, PodUid, Priority, Strategy, SyncBatch, Tier,
};
use proptest::strategy::{Strategy as _, ValueTree};
use proptest::test_runner::TestRunner;

const KINDS: u64 = 6;

fn request(number: u64) -> PodRequest {
    let gpu = match number % KINDS {
        0 => GpuRequest::None,
        1 => GpuRequest::Whole { count: 1 },
        2 => GpuRequest::Whole { count: 2 },
        n => GpuRequest::Share { milli: MilliGpu::clamped(100 * n.cast_signed()) },
    };
    PodRequest {
        uid: PodUid(u128::from(number)),
        cpu: MilliCpu(100),
        memory: MemoryBytes(1),
        gpu,
        models: ModelSet::ANY,
        priority: Priority(0),
        tier: Tier::Batch,
        mig: Default::default(),
    }
}

/// Syncs one node with one pod more or less, then decides over all nodes and over a list of them.
fn cycle(
    kernel: &mut Kernel,
    node: &Node,
    node_ref: NodeRef,
    number: u64,
    scores: &mut [NodeScore],
) {
    let pod = PodRecord::new(
        PodUid(1 << 80),
        GpuRequest::Share { milli: MilliGpu::clamped(10) },
        DeviceMask::only(0),
    );
    let mut delta = node.delta;
    delta.node = node_ref;
    delta.first_pod = 0;
    delta.pod_count = (number % 2) as u32;
    delta.cpu_free = MilliCpu(delta.cpu_free.0 - 7 * (number % 5).cast_signed());
    let pods = &[pod][..delta.pod_count as usize];
    let arrival = Some(request(number));
    let batch = SyncBatch { upserts: &[delta], pods, arrival, ..Default::default() };
    kernel.sync(&batch, &mut [NodeRef::NIL]).expect("a valid batch");
    let request = request(number);
    kernel.decide(&request, Candidates::All, number, None).expect("a valid request");
    kernel
        .decide(&request, Candidates::Refs(&[node_ref]), number, Some(scores))
        .expect("a valid request");
}

#[test]
fn sync_and_decide_allocate_nothing_after_warm_up() {
    assert_eq!(measure(|| drop(std::hint::black_box(Box::new(1)))).count_total, 1, "not counting");
    let mut runner = TestRunner::deterministic();
    for strategy in Strategy::ALL {
        let mut kernel = new_kernel(Config { strategy, ..Config::default() });
        let mut model = Model::default();
        for key in 1..200 {
            let mut node = node().new_tree(&mut runner).expect("no rejects").current();
            node.delta.key = mortise_core::NodeKey(key);
            node.pods.clear();
            model.upsert(&mut kernel, &[node], None);
        }
        let node =
            model.nodes.values().find(|node| node.delta.gpu_count > 2).expect("some").clone();
        let node_ref = model.refs[&node.delta.key.0];
        let mut scores = [NodeScore { score: 0, devices: DeviceMask::EMPTY, reason: 0 }];
        // Up to the last of the early relearns; the next is 488 arrivals away.
        for number in 0..512 {
            cycle(&mut kernel, &node, node_ref, number, &mut scores);
        }
        for number in 512..600 {
            cycle(&mut kernel, &node, node_ref, number, &mut scores);
        }
        // Within a price epoch: every 25 arrivals prices are computed anew, in memory of their own.
        let quiet: Vec<u64> = (600..624)
            .filter(|&number| {
                let info = measure(|| cycle(&mut kernel, &node, node_ref, number, &mut scores));
                info.count_total == 0
            })
            .collect();
        assert!(quiet.len() >= 22, "{strategy}: only {quiet:?} of 24 cycles allocated nothing");
    }
}
