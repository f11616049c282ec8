//! Small clusters for preemption tests: built by hand or at random, and loaded into a kernel.

use mortise_core::preempt::{
    Disruption, DisruptionBudget, Gang, NONE, Outcome, PlanRequest, Planner, PodFacts, Policy,
    SideTables, Tables, Tenant,
};
use mortise_core::{
    Candidates, Cluster, DeviceMask, Generation, GpuRequest, MemoryBytes, MilliCpu, MilliGpu,
    ModelId, ModelSet, NodeDelta, NodeKey, NodeRef, PodRecord, PodRequest, PodUid, Priority,
    SyncBatch, Tier,
};

pub(crate) const NOW: i64 = 1_000_000;

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) key: u64,
    pub(crate) cards: u8,
    pub(crate) cpu: i64,
    pub(crate) memory: i64,
    pub(crate) pods: Vec<PodRecord>,
}

#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) nodes: Vec<Node>,
    pub(crate) facts: Vec<PodFacts>,
    pub(crate) gangs: Vec<Gang>,
    pub(crate) budgets: Vec<DisruptionBudget>,
    pub(crate) budget_refs: Vec<u32>,
    pub(crate) tenants: Vec<Tenant>,
    pub(crate) policy: Policy,
    pub(crate) members: Vec<PodRequest>,
}

/// A measure with many distinct values, at most what is idle, in place of the learned one.
pub(crate) fn stranded(shape: &mortise_core::cluster::FreeShape) -> i64 {
    shape.levels().iter().map(|level| i64::from(level.get() % 700)).sum()
}

impl World {
    pub(crate) fn of(nodes: Vec<Node>, request: PodRequest) -> Self {
        Self {
            nodes,
            facts: Vec::new(),
            gangs: Vec::new(),
            budgets: Vec::new(),
            budget_refs: Vec::new(),
            tenants: Vec::new(),
            policy: Policy::default(),
            members: vec![request],
        }
    }

    /// The cluster without the pods for which `gone` holds.
    pub(crate) fn cluster_without(&self, gone: impl Fn(PodUid) -> bool) -> (Cluster, Vec<NodeRef>) {
        let mut pods = Vec::new();
        let mut upserts = Vec::new();
        for node in &self.nodes {
            let first = pods.len();
            pods.extend(node.pods.iter().copied().filter(|pod| !gone(pod.uid)));
            let held = |f: fn(&PodRecord) -> i64| -> i64 {
                pods[first..].iter().filter(|pod| !pod.reservation).map(f).sum()
            };
            let mut capacity = [MilliGpu::ZERO; 16];
            capacity[..usize::from(node.cards)].fill(MilliGpu::CARD);
            upserts.push(NodeDelta {
                node: NodeRef::NIL,
                key: NodeKey(node.key),
                generation: Generation(1),
                cpu_free: MilliCpu(node.cpu - held(|pod| pod.cpu.0)),
                memory_free: MemoryBytes(node.memory - held(|pod| pod.memory.0)),
                cpu_allocatable: MilliCpu(node.cpu),
                memory_allocatable: MemoryBytes(node.memory),
                model: ModelId::NONE,
                gpu_count: node.cards,
                capacity,
                shares_offered: true,
                mig: Default::default(),
                first_pod: first as u32,
                pod_count: (pods.len() - first) as u32,
            });
        }
        let mut cluster = Cluster::new();
        let mut refs = vec![NodeRef::NIL; upserts.len()];
        let batch = SyncBatch { full: true, upserts: &upserts, pods: &pods, ..Default::default() };
        cluster.sync(&batch, &mut refs).expect("the world is valid");
        (cluster, refs)
    }

    pub(crate) fn tables(&self) -> Tables {
        Tables::new(&SideTables {
            pods: &self.facts,
            gangs: &self.gangs,
            budgets: &self.budgets,
            budget_refs: &self.budget_refs,
            tenants: &self.tenants,
        })
        .expect("the side tables are valid")
    }

    pub(crate) fn plan(&self) -> Outcome {
        self.plan_at(NOW)
    }

    pub(crate) fn plan_at(&self, now_seconds: i64) -> Outcome {
        let (cluster, _) = self.cluster_without(|_| false);
        self.plan_among(&cluster, Candidates::All, now_seconds)
    }

    /// A plan on some nodes of the world's cluster.
    pub(crate) fn plan_among(
        &self,
        cluster: &Cluster,
        nodes: Candidates<'_>,
        now_seconds: i64,
    ) -> Outcome {
        let request = PlanRequest { now_seconds, members: &self.members, nodes, domains: &[] };
        Planner::new()
            .plan(cluster, &self.tables(), &self.policy, &request, &mut stranded)
            .expect("the request is valid")
    }

    /// The same world in which every pod loses the same per GPU, and all training is batch.
    pub(crate) fn tied(mut self) -> Self {
        for pod in self.nodes.iter_mut().flat_map(|node| &mut node.pods) {
            (pod.start_seconds, pod.checkpoint_seconds) = (NOW - 600, None);
            if pod.tier == Tier::Training {
                (pod.tier, pod.priority) = (Tier::Batch, Priority(priority_of(Tier::Batch)));
            }
        }
        for facts in &mut self.facts {
            (facts.restart_seconds, facts.save_seconds) = (60, None);
        }
        self.policy.restart_seconds = 60;
        self
    }

    pub(crate) fn record(&self, uid: PodUid) -> &PodRecord {
        let mut all = self.nodes.iter().flat_map(|node| &node.pods);
        all.find(|pod| pod.uid == uid).expect("the pod is there")
    }

    pub(crate) fn facts_of(&self, uid: PodUid) -> PodFacts {
        self.facts.iter().find(|facts| facts.uid == uid).copied().unwrap_or(PodFacts {
            restart_seconds: self.policy.restart_seconds,
            grace_seconds: self.policy.grace_seconds,
            ..PodFacts::new(uid)
        })
    }
}

pub(crate) fn request(gpu: GpuRequest, tier: Tier) -> PodRequest {
    PodRequest {
        uid: PodUid(0xffff_0000),
        cpu: MilliCpu(0),
        memory: MemoryBytes(0),
        gpu,
        models: ModelSet::ANY,
        priority: Priority(priority_of(tier)),
        tier,
        mig: Default::default(),
    }
}

pub(crate) fn priority_of(tier: Tier) -> i32 {
    match tier {
        Tier::Inference => 1_000,
        Tier::Training => 100,
        Tier::Batch => 0,
    }
}

/// `count` whole cards from device `first` on, started `age` seconds ago.
pub(crate) fn pod(uid: u128, first: usize, count: u8, tier: Tier, age: i64) -> PodRecord {
    let devices = (first..first + usize::from(count)).fold(DeviceMask::EMPTY, DeviceMask::with);
    PodRecord {
        tier,
        priority: Priority(priority_of(tier)),
        start_seconds: NOW - age,
        ..PodRecord::new(PodUid(uid), GpuRequest::Whole { count }, devices)
    }
}

pub(crate) fn node(key: u64, cards: u8, pods: Vec<PodRecord>) -> Node {
    Node { key, cards, cpu: 96_000, memory: 1 << 40, pods }
}

/// SplitMix64.
pub(crate) struct Random(pub u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mortise_core::hash::mix64(self.0)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// What a random world may hold.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    pub(crate) nodes: u64,
    pub(crate) cards: u64,
    pub(crate) pods_per_node: u64,
    pub(crate) members: u64,
    pub(crate) unknown: bool,
}

pub(crate) fn random_world(seed: u64, size: Size) -> World {
    let mut random = Random(seed);
    let r = &mut random;
    let tier = if r.chance(70) { Tier::Inference } else { Tier::Training };
    let cards = 1 + r.below(size.cards) as u8;
    let mut member = random_request(r, tier, cards);
    let mut members = Vec::new();
    for index in 0..1 + r.below(size.members) {
        if r.chance(30) {
            member = random_request(r, tier, cards);
        }
        members.push(PodRequest { uid: PodUid(0xffff_0000 + u128::from(index)), ..member });
    }
    let mut world = World::of(Vec::new(), members[0]);
    world.members = members;
    for _ in 0..r.below(3) {
        let disruption = if r.chance(50) { Disruption::All } else { Disruption::Single };
        world.gangs.push(Gang { disruption, min_members: 1 + r.below(3) as u32 });
    }
    for _ in 0..r.below(3) {
        world.budgets.push(DisruptionBudget { allowed: r.below(3) as u32 });
    }
    for _ in 0..r.below(3) {
        world.tenants.push(Tenant { guarantee_milli: r.below(4) * 1_000 });
    }
    for index in 0..1 + r.below(size.nodes) {
        random_node(r, &mut world, index, cards, size);
    }
    random_policy(r, &mut world.policy);
    world
}

fn random_policy(r: &mut Random, policy: &mut Policy) {
    policy.ratio_permille = if r.chance(50) { None } else { Some(500 * (1 + r.below(6)) as u32) };
    policy.hard_budgets = r.chance(30);
    policy.guarantee_after = r.below(3) as u32;
    if r.chance(30) {
        policy.guarantee_lost_milli_gpu_seconds = r.below(2_000_000) as i64;
    }
    policy.guarantee_milli = if r.chance(50) { u64::MAX } else { r.below(4) * 1_000 };
    policy.restart_seconds = r.below(3) as u32 * 60;
}

fn random_request(r: &mut Random, tier: Tier, cards: u8) -> PodRequest {
    let gpu = match r.below(10) {
        0 => GpuRequest::None,
        1..=3 => GpuRequest::Share { milli: MilliGpu::clamped(100 + 100 * r.below(9) as i64) },
        _ => GpuRequest::Whole { count: 1 + r.below(u64::from(cards)) as u8 },
    };
    let mut request = request(gpu, tier);
    request.cpu = MilliCpu(r.below(5) as i64 * 1_000);
    request.memory = MemoryBytes(r.below(4) as i64 * 1_000);
    request
}

fn random_node(r: &mut Random, world: &mut World, index: u64, cards: u8, size: Size) {
    let mut free = [1_000i64; 16];
    let mut made = node(r.below(1 << 40) * 8 + index, cards, Vec::new());
    for _ in 0..r.below(size.pods_per_node + 1) {
        let uid = PodUid((u128::from(index) << 32) + u128::from(r.below(1 << 30)));
        if let Some(record) = random_pod(r, uid, cards, &mut free, size.unknown) {
            let facts = random_facts(r, world, &record);
            world.facts.extend(facts);
            made.pods.push(record);
        }
    }
    let used = |f: fn(&PodRecord) -> i64| -> i64 { made.pods.iter().map(f).sum() };
    made.cpu = used(|pod| pod.cpu.0) + r.below(3) as i64 * 1_000;
    made.memory = used(|pod| pod.memory.0) + r.below(3) as i64 * 1_000;
    made.pods.sort_by_key(|pod| pod.uid);
    world.nodes.push(made);
}

fn random_pod(
    r: &mut Random,
    uid: PodUid,
    cards: u8,
    free: &mut [i64; 16],
    unknown: bool,
) -> Option<PodRecord> {
    let gpu = match r.below(10) {
        0 => GpuRequest::None,
        1..=4 => GpuRequest::Share { milli: MilliGpu::clamped(100 + 100 * r.below(9) as i64) },
        _ => GpuRequest::Whole { count: 1 + r.below(u64::from(cards.min(3))) as u8 },
    };
    let milli = i64::from(gpu.milli().get());
    let fitting: Vec<usize> = (0..usize::from(cards)).filter(|&d| free[d] >= milli).collect();
    let count = usize::from(gpu.count());
    if fitting.len() < count {
        return None;
    }
    let offset = if count == 0 { 0 } else { r.below((fitting.len() - count + 1) as u64) as usize };
    let mut devices = DeviceMask::EMPTY;
    for &device in &fitting[offset..offset + count] {
        free[device] -= milli;
        devices = devices.with(device);
    }
    let mut record = PodRecord::new(uid, gpu, devices);
    if unknown && r.chance(25) {
        record.devices = DeviceMask::EMPTY;
        record.unknown = gpu.count();
    }
    record.tier = match r.below(10) {
        0 => Tier::Inference,
        1..=3 => Tier::Training,
        _ => Tier::Batch,
    };
    record.priority = Priority(priority_of(record.tier));
    record.cpu = MilliCpu(r.below(4) as i64 * 1_000);
    record.memory = MemoryBytes(r.below(4) as i64 * 1_000);
    record.start_seconds = NOW - r.below(40) as i64 * 50;
    record.checkpoint_seconds = match r.below(4) {
        0 => None,
        1 => Some(NOW + 50 - r.below(60) as i64 * 50),
        _ => Some(NOW - r.below(20) as i64 * 50),
    };
    record.terminating = r.chance(8);
    record.foreign = r.chance(8);
    Some(record)
}

fn random_facts(r: &mut Random, world: &mut World, record: &PodRecord) -> Option<PodFacts> {
    if r.chance(20) {
        return None;
    }
    let pick = |r: &mut Random, len: usize, percent: u64| {
        if len > 0 && r.chance(percent) { r.below(len as u64) as u32 } else { NONE }
    };
    let mut facts = PodFacts::new(record.uid);
    // The members of one gang are of one tier, as its pods share a priority.
    let gang = pick(r, world.gangs.len(), 50);
    if gang != NONE && record.tier == gang_tier(gang) {
        facts.gang = gang;
    }
    facts.tenant = pick(r, world.tenants.len(), 70);
    facts.first_budget = world.budget_refs.len() as u32;
    for budget in 0..world.budgets.len() as u32 {
        if r.chance(40) {
            world.budget_refs.push(budget);
            facts.budget_count += 1;
        }
    }
    facts.unsaved_evictions = r.below(3) as u32;
    facts.save_seconds = if r.chance(50) { Some(r.below(60) as u32) } else { None };
    facts.restart_seconds = r.below(3) as u32 * 60;
    facts.consent = r.chance(50);
    Some(facts)
}

fn gang_tier(gang: u32) -> Tier {
    if gang == 0 { Tier::Batch } else { Tier::Training }
}
