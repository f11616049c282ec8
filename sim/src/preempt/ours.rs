//! The kernel's planner on the simulated cluster: the same code that plans for the scheduler.

use mortise_core::preempt::{
    Disruption, Gang, NONE, Outcome, PlanRequest, Planner, PodFacts, Policy as Limits, SideTables,
    Tables, Tenant,
};
use mortise_core::{
    Candidates, Cluster as KernelCluster, DeviceMask, Error, Generation, GpuRequest, MemoryBytes,
    MilliCpu, MilliGpu, ModelId, ModelSet, NodeDelta, NodeKey, NodeRef, PodRecord, PodRequest,
    PodUid, Priority, SyncBatch, Tier,
};

use super::cluster::{Cards, Cluster, cards_of};
use super::job::Job;
use super::setup::{CARDS_PER_NODE, Guarantee, MILLI_CPU_PER_GPU, Setup};

/// A place and the jobs that must go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Placed {
    pub(super) node: usize,
    pub(super) cards: Cards,
    pub(super) victims: Vec<u32>,
    /// Members of gangs that the plan takes without the rest of their gang.
    pub(super) gangs_broken: u32,
}

/// The kernel's view of the cluster, and its planner.
pub(super) struct Ours {
    planner: Planner,
    cluster: KernelCluster,
    refs: Vec<NodeRef>,
    limits: Limits,
    tenants: Vec<Tenant>,
    tables: Tables,
    upserts: Vec<NodeDelta>,
    pods: Vec<PodRecord>,
    facts: Vec<PodFacts>,
    gangs: Vec<Gang>,
    gang_jobs: Vec<u32>,
    generation: i64,
}

const JOB: u128 = 1 << 64;
const INFERENCE: u128 = 2 << 64;
const LEAVING: u128 = 3 << 64;

impl Ours {
    pub(super) fn new(setup: &Setup, guarantee: Guarantee) -> Self {
        let nodes = setup.nodes as usize;
        let limits = Limits {
            guarantee_after: guarantee.after,
            guarantee_lost_milli_gpu_seconds: guarantee
                .unsaved_gpu_hours
                .map_or(i64::MAX, |hours| i64::from(hours) * 3_600_000),
            ratio_permille: None,
            grace_seconds: setup.grace_seconds as u32,
            runner_ups: 0,
            ..Limits::default()
        };
        let budget = u64::from(guarantee.gpus_per_tenant) * 1_000;
        Self {
            planner: Planner::new(),
            cluster: KernelCluster::new(),
            refs: vec![NodeRef::NIL; nodes],
            limits,
            tenants: vec![Tenant { guarantee_milli: budget }; setup.jobs.tenants.len()],
            tables: Tables::default(),
            upserts: Vec::with_capacity(nodes),
            pods: Vec::new(),
            facts: Vec::new(),
            gangs: Vec::new(),
            gang_jobs: Vec::new(),
            generation: 0,
        }
    }

    /// Plans for an inference pod.
    ///
    /// # Errors
    /// Those of the kernel, which would mean that the simulation fed it nonsense.
    pub(super) fn choose(
        &mut self,
        cluster: &Cluster,
        jobs: &[Job],
        gpus: u32,
        now: i64,
        setup: &Setup,
    ) -> Result<Option<Placed>, Error> {
        self.describe(cluster, jobs, now, setup);
        let batch = SyncBatch {
            full: true,
            upserts: &self.upserts,
            pods: &self.pods,
            ..SyncBatch::default()
        };
        self.cluster.sync(&batch, &mut self.refs)?;
        self.tables.reload(&SideTables {
            pods: &self.facts,
            gangs: &self.gangs,
            tenants: &self.tenants,
            ..SideTables::default()
        })?;
        let pod = inference_request(gpus);
        let request =
            PlanRequest { now_seconds: now, members: &[pod], nodes: Candidates::All, domains: &[] };
        let mut stranded = |shape: &mortise_core::cluster::FreeShape| i64::from(shape.idle_milli());
        let outcome = self.planner.plan(
            &self.cluster,
            &self.tables,
            &self.limits,
            &request,
            &mut stranded,
        )?;
        let Outcome::Plan(plan) = outcome else { return Ok(None) };
        let place = plan.placements[0];
        let mut victims: Vec<u32> =
            plan.evictions().map(|victim| (victim.uid.0 >> 16) as u32).collect();
        let named = victims.len();
        victims.sort_unstable();
        victims.dedup();
        let pods: usize =
            victims.iter().map(|&job| jobs[job as usize].spec.gpus.div_ceil(8) as usize).sum();
        Ok(Some(Placed {
            node: place.node.index as usize,
            cards: place.devices.0 as Cards,
            victims,
            gangs_broken: (pods - named) as u32,
        }))
    }

    fn describe(&mut self, cluster: &Cluster, jobs: &[Job], now: i64, setup: &Setup) {
        self.upserts.clear();
        self.pods.clear();
        self.facts.clear();
        self.gangs.clear();
        self.gang_jobs.clear();
        self.generation += 1;
        for (index, node) in cluster.nodes.iter().enumerate() {
            let first = self.pods.len();
            for pod in &node.jobs {
                self.job_pod(pod.job, pod.part, pod.cards, &jobs[pod.job as usize], now, setup);
            }
            for pod in &node.inference {
                let uid = PodUid(INFERENCE | u128::from(pod.id));
                let record = PodRecord {
                    tier: Tier::Inference,
                    priority: Priority(priority(Tier::Inference)),
                    ..held(uid, pod.cards)
                };
                self.add(record, PodFacts::new(uid));
            }
            let leaving = node.open & !node.free(now);
            if leaving != 0 {
                let uid = PodUid(LEAVING | index as u128);
                self.add(PodRecord { terminating: true, ..held(uid, leaving) }, PodFacts::new(uid));
            }
            self.upserts.push(self.delta(index, first));
        }
    }

    fn delta(&self, index: usize, first: usize) -> NodeDelta {
        let cpu = MILLI_CPU_PER_GPU * i64::from(CARDS_PER_NODE);
        let used: i64 = self.pods[first..].iter().map(|pod| pod.cpu.0).sum();
        let mut capacity = [MilliGpu::ZERO; 16];
        capacity[..CARDS_PER_NODE as usize].fill(MilliGpu::CARD);
        NodeDelta {
            node: self.refs[index],
            key: NodeKey(index as u64),
            generation: Generation(self.generation),
            cpu_free: MilliCpu(cpu - used),
            memory_free: MemoryBytes(0),
            cpu_allocatable: MilliCpu(cpu),
            memory_allocatable: MemoryBytes(0),
            model: ModelId::NONE,
            gpu_count: CARDS_PER_NODE as u8,
            capacity,
            shares_offered: false,
            mig: Default::default(),
            first_pod: first as u32,
            pod_count: (self.pods.len() - first) as u32,
        }
    }

    fn job_pod(&mut self, id: u32, part: u32, cards: Cards, job: &Job, now: i64, setup: &Setup) {
        let uid = PodUid(JOB | u128::from(id) << 16 | u128::from(part));
        let tier = if job.is_tier1() { Tier::Training } else { Tier::Batch };
        let record = PodRecord {
            tier,
            priority: Priority(priority(tier)),
            start_seconds: job.stay.map_or(now, |stay| stay.start),
            checkpoint_seconds: job.checkpoint(now),
            ..held(uid, cards)
        };
        let gang = if job.spec.gpus > CARDS_PER_NODE as u16 { self.gang(id) } else { NONE };
        let saves = job.saves_within(setup.grace_seconds);
        let facts = PodFacts {
            gang,
            tenant: job.spec.tenant,
            unsaved_evictions: job.unsaved_evictions,
            save_seconds: saves.then_some(job.saving.save_seconds as u32),
            restart_seconds: job.saving.restart_seconds as u32,
            grace_seconds: setup.grace_seconds as u32,
            ..PodFacts::new(uid)
        };
        self.add(record, facts);
    }

    fn gang(&mut self, job: u32) -> u32 {
        if let Some(known) = self.gang_jobs.iter().position(|&other| other == job) {
            return known as u32;
        }
        self.gang_jobs.push(job);
        self.gangs.push(Gang { disruption: Disruption::All, min_members: 1 });
        self.gangs.len() as u32 - 1
    }

    fn add(&mut self, record: PodRecord, facts: PodFacts) {
        self.pods.push(record);
        self.facts.push(facts);
    }
}

fn priority(tier: Tier) -> i32 {
    2 - tier as i32
}

fn held(uid: PodUid, cards: Cards) -> PodRecord {
    let count = cards.count_ones();
    let devices = cards_of(cards).fold(DeviceMask::EMPTY, DeviceMask::with);
    PodRecord {
        cpu: MilliCpu(MILLI_CPU_PER_GPU * i64::from(count)),
        ..PodRecord::new(uid, GpuRequest::Whole { count: count as u8 }, devices)
    }
}

fn inference_request(gpus: u32) -> PodRequest {
    PodRequest {
        uid: PodUid(u128::MAX),
        cpu: MilliCpu(MILLI_CPU_PER_GPU * i64::from(gpus)),
        memory: MemoryBytes(0),
        gpu: GpuRequest::Whole { count: gpus as u8 },
        models: ModelSet::ANY,
        priority: Priority(priority(Tier::Inference)),
        tier: Tier::Inference,
        mig: Default::default(),
    }
}
