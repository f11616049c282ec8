//! What the border costs: the same decisions and syncs by direct calls of the kernel and through the C ABI, in one run.

use std::hint::black_box;
use std::ptr;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use mortise::abi;
use mortise_core::{
    Candidates, Config, DeviceMask, Generation, GpuRequest, Kernel, MemoryBytes, MilliCpu,
    MilliGpu, ModelId, ModelSet, NodeDelta, NodeKey, NodeRef, NodeScore, PodRequest, PodUid,
    Priority, SyncBatch, Tier,
};

const NODES: [usize; 2] = [1_213, 5_000];
const CPU_MILLI: i64 = 96_000;
const MEMORY_BYTES: i64 = 1 << 39;

fn struct_size<T>() -> u32 {
    size_of::<T>() as u32
}

fn kernel_node(key: u64, generation: i64) -> NodeDelta {
    NodeDelta {
        node: NodeRef::NIL,
        key: NodeKey(key),
        generation: Generation(generation),
        // The content changes with the generation, so that a sync has work to do.
        cpu_free: MilliCpu(CPU_MILLI - generation % 2 * 1_000),
        memory_free: MemoryBytes(MEMORY_BYTES),
        cpu_allocatable: MilliCpu(CPU_MILLI),
        memory_allocatable: MemoryBytes(MEMORY_BYTES),
        model: ModelId::NONE,
        gpu_count: 8,
        capacity: std::array::from_fn(
            |device| if device < 8 { MilliGpu::CARD } else { MilliGpu::ZERO },
        ),
        shares_offered: true,
        mig: Default::default(),
        first_pod: 0,
        pod_count: 0,
    }
}

fn abi_node(key: u64, generation: i64) -> abi::mortise_node_delta {
    let node = kernel_node(key, generation);
    abi::mortise_node_delta {
        node_ref: 0,
        node_key: key,
        generation,
        cpu_free_milli: node.cpu_free.0,
        memory_free_bytes: MEMORY_BYTES,
        cpu_allocatable_milli: CPU_MILLI,
        memory_allocatable_bytes: MEMORY_BYTES,
        model_id: abi::MORTISE_MODEL_NONE,
        first_pod: 0,
        pod_count: 0,
        gpu_count: 8,
        flags: abi::MORTISE_NODE_OFFERS_SHARES as u16,
        gpu_capacity_milli: node.capacity.map(MilliGpu::get),
        mig_model: [0; 16],
        mig_places: [0; 16],
    }
}

/// The same cluster twice: a kernel and a handle.
struct Pair {
    kernel: Kernel,
    kernel_refs: Vec<NodeRef>,
    handle: u64,
    refs: Vec<u64>,
}

impl Pair {
    fn new(nodes: usize) -> Self {
        let config = abi::mortise_config {
            struct_size: struct_size::<abi::mortise_config>(),
            flags: 0,
            seed: 0,
            strategy: ptr::null(),
            strategy_length: 0,
            memo_bytes: 0,
            lock_wait_milliseconds: 0,
            mix_mode: abi::MORTISE_MIX_LEARNED,
            mix_kinds: ptr::null(),
            mix_kind_count: 0,
            mix_kind_stride: 0,
            threads: 0,
            mig_strategy: std::ptr::null(),
            mig_strategy_length: 0,
        };
        let mut handle = 0;
        // SAFETY: both point at live values.
        let status = unsafe { mortise::mortise_cluster_new(&config, &mut handle, ptr::null_mut()) };
        assert_eq!(status, 0);
        let mut pair = Self {
            kernel: Kernel::new(Config::default()).expect("the default is valid"),
            kernel_refs: vec![NodeRef::NIL; nodes],
            handle,
            refs: vec![0; nodes],
        };
        let deltas: Vec<_> = (1..=nodes as u64).map(|key| kernel_node(key, 0)).collect();
        let batch = SyncBatch { full: true, upserts: &deltas, ..SyncBatch::default() };
        pair.kernel.sync(&batch, &mut pair.kernel_refs).expect("valid nodes");
        let deltas: Vec<_> = (1..=nodes as u64).map(|key| abi_node(key, 0)).collect();
        let mut refs = vec![0; nodes];
        sync(handle, &deltas, &mut refs);
        pair.refs = refs;
        pair
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        // SAFETY: no pointer but NULL.
        unsafe { mortise::mortise_cluster_free(self.handle, ptr::null_mut()) };
    }
}

fn sync(handle: u64, nodes: &[abi::mortise_node_delta], refs: &mut [u64]) {
    let request = abi::mortise_sync_request {
        struct_size: struct_size::<abi::mortise_sync_request>(),
        flags: 0,
        upserts: nodes.as_ptr(),
        upsert_count: nodes.len(),
        pods: ptr::null(),
        pod_count: 0,
        upsert_stride: struct_size::<abi::mortise_node_delta>(),
        pod_stride: 0,
        removals: ptr::null(),
        removal_count: 0,
        arrival: ptr::null(),
    };
    let mut result = abi::mortise_sync_result {
        struct_size: struct_size::<abi::mortise_sync_result>(),
        node_count: 0,
        pod_count: 0,
        added_count: 0,
        changed_count: 0,
        removed_count: 0,
        arrival_counted: 0,
        overcommitted_milli: 0,
    };
    // SAFETY: all point at live values; `refs` has one element per upsert.
    let status = unsafe {
        mortise::mortise_sync(handle, &request, refs.as_mut_ptr(), &mut result, ptr::null_mut())
    };
    assert_eq!(status, 0);
}

fn score(
    handle: u64,
    pod: &abi::mortise_pod_request,
    refs: &[u64],
    scores: &mut [abi::mortise_node_score],
) -> u64 {
    let request = abi::mortise_score_request {
        struct_size: struct_size::<abi::mortise_score_request>(),
        flags: 0,
        pod,
        candidates: refs.as_ptr(),
        candidate_count: refs.len(),
        score_stride: struct_size::<abi::mortise_node_score>(),
        reserved: 0,
        tie_salt: 0,
    };
    let mut decision = abi::mortise_decision {
        struct_size: struct_size::<abi::mortise_decision>(),
        feasible_count: 0,
        node_ref: 0,
        score: 0,
        candidate_index: 0,
        devices: 0,
        mig_count: 0,
        mig: [abi::mortise_mig_instance { device: 0, place: 0 }; 16],
    };
    // SAFETY: all point at live values that say their own length.
    let status = unsafe {
        mortise::mortise_score(
            handle,
            &request,
            scores.as_mut_ptr(),
            scores.len(),
            &mut decision,
            ptr::null_mut(),
        )
    };
    assert_eq!(status, 0);
    decision.node_ref
}

fn bench_score(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("warm score of all nodes");
    let direct_pod = PodRequest {
        uid: PodUid(1),
        cpu: MilliCpu(4_000),
        memory: MemoryBytes(1 << 30),
        gpu: GpuRequest::Whole { count: 1 },
        models: ModelSet::ANY,
        priority: Priority(0),
        tier: Tier::Training,
        mig: Default::default(),
    };
    let abi_pod = abi::mortise_pod_request {
        struct_size: struct_size::<abi::mortise_pod_request>(),
        flags: 0,
        uid_hi: 0,
        uid_lo: 1,
        cpu_milli: 4_000,
        memory_bytes: 1 << 30,
        allowed_models: u64::MAX,
        priority: 0,
        gpu_count: 1,
        gpu_milli: 1_000,
        tier: 1,
        reserved: [0; 7],
        mig: [abi::mortise_mig_kind { profile: 0, count: 0 }; 4],
    };
    for nodes in NODES {
        let mut pair = Pair::new(nodes);
        let blank = NodeScore { score: 0, devices: DeviceMask::EMPTY, reason: 0 };
        let mut direct_scores = vec![blank; nodes];
        let blank =
            abi::mortise_node_score { node_ref: 0, score: 0, devices: 0, reason: 0, reserved: 0 };
        let mut scores = vec![blank; nodes];
        group.bench_function(BenchmarkId::new("direct", nodes), |bencher| {
            bencher.iter(|| {
                let candidates = Candidates::Refs(&pair.kernel_refs);
                let decision = pair
                    .kernel
                    .decide(black_box(&direct_pod), candidates, 0, Some(&mut direct_scores))
                    .expect("valid");
                decision.best
            });
        });
        group.bench_function(BenchmarkId::new("C ABI", nodes), |bencher| {
            bencher.iter(|| score(pair.handle, black_box(&abi_pod), &pair.refs, &mut scores));
        });
    }
    group.finish();
}

fn bench_sync(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("sync of one changed node");
    for nodes in NODES {
        let mut pair = Pair::new(nodes);
        let mut generation = 0;
        group.bench_function(BenchmarkId::new("direct", nodes), |bencher| {
            bencher.iter(|| {
                generation += 1;
                let upserts = [kernel_node(7, generation)];
                let batch = SyncBatch { upserts: &upserts, ..SyncBatch::default() };
                pair.kernel.sync(black_box(&batch), &mut pair.kernel_refs[6..7]).expect("valid")
            });
        });
        group.bench_function(BenchmarkId::new("C ABI", nodes), |bencher| {
            bencher.iter(|| {
                generation += 1;
                sync(pair.handle, black_box(&[abi_node(7, generation)]), &mut pair.refs[6..7]);
            });
        });
    }
    group.finish();
}

fn bench_refused_call(criterion: &mut Criterion) {
    // The least a call can do: the border, one look into the table of handles, a status and its message.
    criterion.bench_function("refused call", |bencher| {
        // SAFETY: no pointer but NULL.
        bencher.iter(|| unsafe { mortise::mortise_learn_from_pods(black_box(1), ptr::null_mut()) });
    });
}

criterion_group!(benches, bench_score, bench_sync, bench_refused_call);
criterion_main!(benches);
