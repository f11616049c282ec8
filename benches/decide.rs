//! One decision over all nodes, beside the naive twin: the rules node by node, nothing remembered.
//!
//! `repeat`: the same kind again, nothing changed; `repeat_listed`: over a list of all nodes, with every node's score, as
//! a plugin asks. `stream`: the openb-like stream, a pod placed and one ended between
//! decisions (the time is that of the decision alone; p50 and p99 are printed before the tables). `refreshed`: the first
//! decision of a kind after a price refresh. `cold`: the first decision of a kernel that knows the mix but no node.

mod fixture;

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use fixture::{Fixture, arrival};
use mortise_core::filter::feasible;
use mortise_core::hash::mix64;
use mortise_core::stranding::twin::Twin;
use mortise_core::{Candidates, Config, DeviceMask, Kernel, NodeScore, PodRequest, Strategy};

/// A frequent kind that fits: a share.
fn some_share() -> PodRequest {
    (0..).map(arrival).find(|pod| pod.gpu.milli().get() == 500).expect("in the stream")
}

/// Decides by the written-out rules on every node.
fn naive(kernel: &Kernel, pod: &PodRequest) -> Option<(i64, u64, u64)> {
    let stranding = kernel.stranding();
    let twin = Twin::of(stranding);
    kernel
        .cluster()
        .nodes()
        .filter_map(|node| {
            let view = kernel.cluster().view(node.index as usize);
            feasible(&view, pod).ok()?;
            let placed = twin.place(stranding.prices(), &view.shape, &pod.kind())?;
            Some((placed.cost, mix64(view.key.0), view.key.0))
        })
        .min()
}

/// Time of the decisions of a stream of pods.
fn stream(fixture: &mut Fixture, decisions: u64) -> Vec<Duration> {
    let mut times = Vec::new();
    for _ in 0..decisions {
        fixture.end_oldest();
        let pod = fixture.arrive();
        let start = Instant::now();
        let decision = fixture.decide(black_box(&pod));
        times.push(start.elapsed());
        fixture.place(&pod, &decision);
    }
    times
}

fn print_percentiles(what: &str, fixture: &mut Fixture) {
    let mut times = stream(fixture, 4_000);
    times.sort_unstable();
    let at = |share: usize| times[times.len() * share / 1_000].as_nanos() as f64 / 1_000.0;
    let (p50, p90, p99) = (at(500), at(900), at(990));
    println!("{what}: decision p50 {p50:.1} us, p90 {p90:.1} us, p99 {p99:.1} us");
}

fn default_strategy(c: &mut Criterion) {
    let pod = some_share();
    let mut group = c.benchmark_group("decide");
    for nodes in [1_213, 5_000] {
        let mut fixture = Fixture::new(Strategy::ExpectedStranding, nodes, 80);
        print_percentiles(&format!("stream over {nodes} nodes"), &mut fixture);
        group.bench_function(BenchmarkId::new("repeat", nodes), |b| {
            b.iter(|| fixture.decide(black_box(&pod)));
        });
        let unscored = NodeScore { score: 0, devices: DeviceMask::EMPTY, reason: 0 };
        let (refs, mut scores) = (fixture.refs.clone(), vec![unscored; nodes]);
        group.bench_function(BenchmarkId::new("repeat_listed", nodes), |b| {
            b.iter(|| {
                let candidates = Candidates::Refs(black_box(&refs));
                fixture.kernel.decide(&pod, candidates, 1, Some(&mut scores))
            });
        });
        group.bench_function(BenchmarkId::new("stream", nodes), |b| {
            b.iter_custom(|decisions| stream(&mut fixture, decisions).into_iter().sum());
        });
        group.bench_function(BenchmarkId::new("refreshed", nodes), |b| {
            b.iter_custom(|decisions| refreshed(&mut fixture, &pod, decisions));
        });
        group.sample_size(10);
        group.bench_function(BenchmarkId::new("cold", nodes), |b| {
            let (state, learned) =
                (fixture.kernel.export_state().expect("memory"), fixture.kernel.export_learned());
            let config = fixture.kernel.config().clone();
            let cold = || restored(&config, &learned, &state);
            b.iter_batched_ref(
                cold,
                |kernel| kernel.decide(&pod, Candidates::All, 1, None),
                BatchSize::LargeInput,
            );
        });
        group.bench_function(BenchmarkId::new("naive", nodes), |b| {
            b.iter(|| naive(&fixture.kernel, black_box(&pod)));
        });
        group.sample_size(100);
    }
    let mut fixture = Fixture::new(Strategy::ExpectedStranding, 100_000, 1);
    group.bench_function(BenchmarkId::new("repeat", 100_000), |b| {
        b.iter(|| fixture.decide(black_box(&pod)));
    });
    group.finish();
}

fn restored(config: &Config, learned: &[u8], state: &[u8]) -> Kernel {
    let mut kernel = Kernel::new(config.clone()).expect("a valid configuration");
    kernel.import_learned(learned).expect("own bytes");
    kernel.import_state(state).expect("own bytes");
    kernel
}

/// Time of the decisions that find new prices.
fn refreshed(fixture: &mut Fixture, pod: &PodRequest, decisions: u64) -> Duration {
    let mut time = Duration::ZERO;
    for _ in 0..decisions {
        let epoch = fixture.kernel.stats().price_epochs;
        while fixture.kernel.stats().price_epochs == epoch {
            let other = fixture.arrive();
            // Not the kind that is measured: it must not see the new prices first.
            if other.kind() != pod.kind() {
                fixture.end_oldest();
                fixture.decide_and_place(&other);
            }
        }
        let start = Instant::now();
        black_box(fixture.decide(pod));
        time += start.elapsed();
    }
    time
}

fn other_strategies(c: &mut Criterion) {
    let mut group = c.benchmark_group("stream_1213");
    for strategy in Strategy::ALL {
        let mut fixture = Fixture::new(strategy, 1_213, 80);
        group.bench_function(strategy.name(), |b| {
            b.iter_custom(|decisions| stream(&mut fixture, decisions).into_iter().sum());
        });
    }
    group.finish();
}

criterion_group!(benches, default_strategy, other_strategies);
criterion_main!(benches);
