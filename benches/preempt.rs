//! One plan over 5,000 nodes with 40,000 running pods, beside a naive twin: every subset of every node's pods, nothing
//! bounded (on 500 nodes).
//!
//! `mixed`: ages, checkpoints, gangs and training at random; `tied`: every pod loses the same, so that only the stranded
//! measure and node order decide; `tied-idle`: as that, and 0.3 of a card is idle on every node, so that the measure
//! differs; `tied-equal`: as that, and all pods are of one size, tier for tier. Stranding is the kernel's, learned from the running pods. Percentiles over 200
//! different plans are printed before the tables, by the clock and by the processor time of the thread (the one that
//! counts on a busy machine); side tables are kept between plans there, `reloaded` reads them anew for each.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use mortise_core::cluster::FreeShape;
use mortise_core::hash::mix64;
use mortise_core::preempt::{
    Cost, Disruption, Gang, NONE, Outcome, PlanRequest, Planner, PodFacts, Policy, SideTables,
    Tables, lost_milli_gpu_seconds, yields,
};
use mortise_core::{
    Candidates, Config, DeviceMask, Generation, GpuRequest, Kernel, MemoryBytes, MilliCpu,
    MilliGpu, ModelId, ModelSet, NodeDelta, NodeKey, NodeRef, PodRecord, PodRequest, PodUid,
    Priority, SyncBatch, Tier,
};
use rustix::time::{ClockId, clock_gettime};

const NODES: u64 = 5_000;
const CARDS: u64 = 8;
/// The naive twin tries 256 subsets per node: seconds on the whole cluster.
const NAIVE_NODES: u64 = 500;
const NOW: i64 = 10_000_000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Losses {
    Mixed,
    Tied,
    TiedIdle,
    TiedEqual,
}

struct World {
    kernel: Kernel,
    facts: Vec<PodFacts>,
    gangs: Vec<Gang>,
    tables: Tables,
    policy: Policy,
}

fn priority(tier: Tier) -> Priority {
    Priority(2 - tier as i32)
}

impl World {
    fn new(losses: Losses, nodes: u64) -> Self {
        let mut pods = Vec::new();
        let mut facts = Vec::new();
        let mut upserts = Vec::new();
        let mut gangs = Vec::new();
        for node in 0..nodes {
            let first = pods.len();
            for card in 0..CARDS {
                let (record, fact) = pod(node, card, losses, &mut gangs);
                pods.push(record);
                facts.push(fact);
            }
            upserts.push(delta(node, first, &pods[first..]));
        }
        let mut kernel = Kernel::new(Config::default()).expect("the default configuration");
        let mut refs = vec![NodeRef::NIL; upserts.len()];
        let batch = SyncBatch { full: true, upserts: &upserts, pods: &pods, ..Default::default() };
        kernel.sync(&batch, &mut refs).expect("a valid cluster");
        kernel.learn_from_pods();
        let side = SideTables { pods: &facts, gangs: &gangs, ..SideTables::default() };
        let tables = Tables::new(&side).expect("valid tables");
        Self { kernel, tables, policy: Policy::default(), facts, gangs }
    }

    fn side(&self) -> SideTables<'_> {
        SideTables { pods: &self.facts, gangs: &self.gangs, ..SideTables::default() }
    }

    fn plan(&self, planner: &mut Planner, pod: &PodRequest, now_seconds: i64) -> Outcome {
        let members = std::slice::from_ref(pod);
        let request = PlanRequest { now_seconds, members, nodes: Candidates::All, domains: &[] };
        planner
            .plan_in(&self.kernel, &self.tables, &self.policy, &request)
            .expect("a valid request")
    }
}

/// Processor time of this thread so far.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.try_into().expect("it counts upwards from 0")
}

/// One pod per card; in the mixed world every fourth node's pods pair up to gangs with the next node's.
fn pod(node: u64, card: u64, losses: Losses, gangs: &mut Vec<Gang>) -> (PodRecord, PodFacts) {
    let draw = mix64(node * CARDS + card);
    let uid = PodUid(u128::from(node * CARDS + card));
    let tier = match draw % 10 {
        0 => Tier::Inference,
        1..=3 => Tier::Training,
        _ => Tier::Batch,
    };
    let partly_idle = matches!(losses, Losses::TiedIdle | Losses::TiedEqual) && card == 7;
    let gpu = match partly_idle {
        true => GpuRequest::Share { milli: MilliGpu::clamped(700) },
        false => GpuRequest::Whole { count: 1 },
    };
    let extra = if losses == Losses::TiedEqual { 0 } else { (draw >> 8 & 7) as i64 * 500 };
    let mut record = PodRecord {
        tier,
        priority: priority(tier),
        cpu: MilliCpu(8_000 + extra),
        start_seconds: NOW - 7_200,
        ..PodRecord::new(uid, gpu, DeviceMask::only(card as usize))
    };
    let mut facts = PodFacts { restart_seconds: 60, ..PodFacts::new(uid) };
    if losses == Losses::Mixed {
        record.start_seconds = NOW - (draw >> 16 & 0xf_ffff) as i64;
        if draw >> 40 & 3 != 0 {
            record.checkpoint_seconds =
                Some((NOW - (draw >> 44 & 0xfff) as i64).max(record.start_seconds));
        }
        if node % 4 < 2 && card == 0 {
            if node.is_multiple_of(4) {
                gangs.push(Gang { disruption: Disruption::All, min_members: 2 });
            }
            facts.gang = gangs.len() as u32 - 1;
            (record.tier, record.priority) = (Tier::Batch, priority(Tier::Batch));
        }
    }
    (record, facts)
}

fn delta(node: u64, first: usize, pods: &[PodRecord]) -> NodeDelta {
    let used: i64 = pods.iter().map(|pod| pod.cpu.0).sum();
    let mut capacity = [MilliGpu::ZERO; 16];
    capacity[..CARDS as usize].fill(MilliGpu::CARD);
    NodeDelta {
        node: NodeRef::NIL,
        key: NodeKey(mix64(node)),
        generation: Generation(1),
        cpu_free: MilliCpu(96_000 - used),
        memory_free: MemoryBytes(1 << 38),
        cpu_allocatable: MilliCpu(96_000),
        memory_allocatable: MemoryBytes(1 << 40),
        model: ModelId::NONE,
        gpu_count: CARDS as u8,
        capacity,
        shares_offered: true,
        mig: Default::default(),
        first_pod: first as u32,
        pod_count: pods.len() as u32,
    }
}

fn request(gpu: GpuRequest, tier: Tier) -> PodRequest {
    PodRequest {
        uid: PodUid(u128::MAX),
        cpu: MilliCpu(i64::from(gpu.count()) * 8_000),
        memory: MemoryBytes(1 << 30),
        gpu,
        models: ModelSet::ANY,
        priority: priority(tier),
        tier,
        mig: Default::default(),
    }
}

/// The kinds a burst asks for; the number varies size, tier and time.
fn varied(number: u64) -> (PodRequest, i64) {
    let gpu = match number % 8 {
        0..=3 => GpuRequest::Whole { count: 1 },
        4 => GpuRequest::Whole { count: 2 },
        5 => GpuRequest::Whole { count: 4 },
        6 => GpuRequest::Whole { count: 8 },
        _ => GpuRequest::Share { milli: MilliGpu::clamped(500) },
    };
    let tier = if number.is_multiple_of(3) { Tier::Training } else { Tier::Inference };
    (request(gpu, tier), NOW + number as i64)
}

fn print_percentiles(what: &str, world: &World) {
    let mut planner = Planner::new();
    let (mut clock, mut thread) = (Vec::new(), Vec::new());
    for number in 0..200 {
        let (pod, now) = varied(number);
        let (start, used) = (Instant::now(), thread_time());
        black_box(world.plan(&mut planner, &pod, now));
        thread.push(thread_time() - used);
        clock.push(start.elapsed());
    }
    for (times, by) in [(&mut thread, "processor"), (&mut clock, "clock")] {
        times.sort_unstable();
        let at = |share: usize| times[times.len() * share / 100].as_secs_f64() * 1e3;
        let (p50, p90, p99, most) =
            (at(50), at(90), at(99), times[times.len() - 1].as_secs_f64() * 1e3);
        println!(
            "plan, {what}, {by} time: p50 {p50:.2} ms, p90 {p90:.2} ms, p99 {p99:.2} ms, most {most:.2} ms"
        );
    }
}

/// Every subset of every node's pods; gangs as a whole, at most twice the GPUs asked for.
fn naive(world: &World, pod: &PodRequest, now: i64) -> Option<(Cost, NodeKey)> {
    let limit = u32::from(pod.gpu.count()) * 2_000;
    let mut members: Vec<Vec<usize>> = vec![Vec::new(); world.gangs.len()];
    for (uid, facts) in world.facts.iter().enumerate() {
        if facts.gang != NONE {
            members[facts.gang as usize].push(uid);
        }
    }
    let nodes = world.kernel.cluster().nodes();
    nodes
        .filter_map(|node| {
            let slot = node.index as usize;
            let pods = world.kernel.cluster().pods(slot);
            let best = (0u32..1 << pods.len()).filter_map(|subset| {
                let gone: Vec<&PodRecord> = (0..pods.len())
                    .filter(|bit| subset >> bit & 1 == 1)
                    .map(|bit| &pods[bit])
                    .collect();
                naive_cost(world, &members, slot, &gone, pod, now, limit)
            });
            best.min().map(|cost| (cost, world.kernel.cluster().key(slot)))
        })
        .min()
}

fn naive_cost(
    world: &World,
    members: &[Vec<usize>],
    slot: usize,
    gone: &[&PodRecord],
    pod: &PodRequest,
    now: i64,
    limit: u32,
) -> Option<Cost> {
    let mut cost = Cost::default();
    let mut evicted = 0;
    let mut shape = world.kernel.cluster().shape(slot);
    let stranded =
        |shape: &FreeShape| i64::from(world.kernel.stranding().expected_stranded_milli(shape));
    let before = stranded(&shape);
    let mut take = |record: &PodRecord, unit: bool, cost: &mut Cost| {
        let facts = &world.facts[record.uid.0 as usize];
        let low = yields((record.tier, record.priority), (pod.tier, pod.priority));
        let saved = record.checkpoint_seconds;
        cost.lost_milli_gpu_seconds += lost_milli_gpu_seconds(record, saved, facts, now);
        cost.units += u32::from(unit);
        cost.tier1_units += u32::from(unit && record.tier == Tier::Training);
        evicted += record.gpu.total_milli();
        low
    };
    for record in gone {
        if !take(record, true, &mut cost) {
            return None;
        }
        shape.cpu_free.0 += record.cpu.0;
        for device in record.devices.iter() {
            shape.free[device] = MilliGpu::CARD;
        }
        let gang = world.facts[record.uid.0 as usize].gang;
        if gang != NONE {
            let mates = members[gang as usize].iter().copied();
            for uid in mates.filter(|&uid| uid as u128 != record.uid.0) {
                let mates_slot = uid / CARDS as usize;
                let mate = world.kernel.cluster().pods(mates_slot)[uid % CARDS as usize];
                if !take(&mate, false, &mut cost) {
                    return None;
                }
            }
        }
    }
    let whole = shape.whole_free();
    let (count, milli) = (u32::from(pod.gpu.count()), pod.gpu.milli());
    if evicted > limit || whole < count || shape.cpu_free < pod.cpu {
        return None;
    }
    let devices = (0..CARDS as usize)
        .filter(|&device| shape.free[device] == MilliGpu::CARD)
        .take(count as usize)
        .fold(DeviceMask::EMPTY, DeviceMask::with);
    cost.stranded_milli = stranded(&shape.after(pod.cpu, milli, devices)) - before;
    Some(cost)
}

fn benches(c: &mut Criterion) {
    for (name, losses) in [
        ("mixed", Losses::Mixed),
        ("tied", Losses::Tied),
        ("tied-idle", Losses::TiedIdle),
        ("tied-equal", Losses::TiedEqual),
    ] {
        let world = World::new(losses, NODES);
        print_percentiles(name, &world);
        let mut group = c.benchmark_group(format!("plan/{name}"));
        group.sample_size(10);
        for count in [1u8, 4, 8] {
            let pod = request(GpuRequest::Whole { count }, Tier::Inference);
            let mut planner = Planner::new();
            group.bench_with_input(BenchmarkId::new("kernel", count), &pod, |b, pod| {
                b.iter(|| black_box(world.plan(&mut planner, pod, NOW)));
            });
        }
        let small = World::new(losses, NAIVE_NODES);
        let pod = request(GpuRequest::Whole { count: 2 }, Tier::Inference);
        let mut planner = Planner::new();
        let ours = small.plan(&mut planner, &pod, NOW);
        let ours = ours.plan().map(|plan| {
            (plan.cost, small.kernel.cluster().key(plan.placements[0].node.index as usize))
        });
        assert_eq!(ours, naive(&small, &pod, NOW), "the twins disagree");
        group.bench_function("kernel/2 of 500 nodes", |b| {
            b.iter(|| small.plan(&mut planner, &pod, NOW))
        });
        group.bench_function("naive/2 of 500 nodes", |b| b.iter(|| naive(&small, &pod, NOW)));
        let mut tables = Tables::default();
        group.bench_function("reloaded tables", |b| {
            b.iter(|| tables.reload(&world.side()).expect("valid tables"));
        });
        group.finish();
    }
}

criterion_group! {
    name = plans;
    config = Criterion::default().warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
    targets = benches
}
criterion_main!(plans);
