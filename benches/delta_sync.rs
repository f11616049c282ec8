//! Syncing 1, 50 and 5,000 changed nodes of 5,000, beside a naive twin without deltas: it rebuilds its state from all
//! nodes each time, pods in a map per node.

mod fixture;

use std::collections::HashMap;
use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use fixture::Fixture;
use mortise_core::{MilliCpu, NodeDelta, NodeRef, PodRecord, PodUid, Strategy, SyncBatch};

struct NaiveNode {
    delta: NodeDelta,
    free: Vec<i64>,
    pods: HashMap<PodUid, PodRecord>,
}

fn rebuild(upserts: &[NodeDelta], pods: &[PodRecord]) -> HashMap<u64, NaiveNode> {
    let mut cluster = HashMap::new();
    for delta in upserts {
        let pods = &pods[delta.first_pod as usize..][..delta.pod_count as usize];
        let mut free: Vec<i64> =
            delta.capacity.iter().map(|milli| i64::from(milli.get())).collect();
        for pod in pods {
            for device in pod.devices.iter() {
                free[device] -= i64::from(pod.gpu.milli().get());
            }
        }
        let pods = pods.iter().map(|pod| (pod.uid, *pod)).collect();
        cluster.insert(delta.key.0, NaiveNode { delta: *delta, free, pods });
    }
    cluster
}

fn delta_sync(c: &mut Criterion) {
    let mut fixture = Fixture::new(Strategy::BestFit, 5_000, 70);
    let (all, all_pods) = fixture.batch(0..5_000);
    let mut group = c.benchmark_group("delta_sync");
    for changed in [1usize, 50, 5_000] {
        group.throughput(Throughput::Elements(changed as u64));
        let (mut upserts, pods) = fixture.batch(0..changed);
        let mut refs = vec![NodeRef::NIL; changed];
        group.bench_function(BenchmarkId::new("kernel", changed), |b| {
            b.iter(|| {
                for delta in &mut upserts {
                    delta.cpu_free = MilliCpu(delta.cpu_free.0 ^ 1);
                }
                let batch = SyncBatch { upserts: &upserts, pods: &pods, ..Default::default() };
                fixture.kernel.sync(black_box(&batch), &mut refs).expect("a valid batch")
            });
        });
        if changed < 5_000 {
            continue;
        }
        let batch = SyncBatch { full: true, upserts: &all, pods: &all_pods, ..Default::default() };
        group.bench_function(BenchmarkId::new("kernel_full_resync", changed), |b| {
            b.iter(|| fixture.kernel.sync(black_box(&batch), &mut refs).expect("a valid batch"));
        });
    }
    group.bench_function(BenchmarkId::new("naive_rebuild", 5_000), |b| {
        b.iter(|| {
            let cluster = rebuild(black_box(&all), black_box(&all_pods));
            cluster
                .values()
                .map(|n| n.free[0] + n.delta.cpu_free.0 + n.pods.len() as i64)
                .sum::<i64>()
        });
    });
    group.finish();
}

criterion_group!(benches, delta_sync);
criterion_main!(benches);
