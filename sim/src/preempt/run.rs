//! One run: discrete events, one policy, one seed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::time::Instant;

use mortise_core::Error;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::cluster::{Cluster, InferencePod};
use super::job::{Job, Saving};
use super::measure::{Measure, Run};
use super::ours::{Ours, Placed};
use super::policy::Policy;
use super::rivals::{Scene, choose};
use super::setup::{Guarantee, Setup};

/// Seconds between looks at the inference demand.
const STEP: i64 = 60;
/// Seconds of the longest wait between attempts of a pod that found no plan.
const MINUTE: i64 = 60;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    /// Cards left by victims are free.
    Release,
    /// A job ends its stay of this number.
    Finish { job: u32, stay: u32 },
    /// A victim may start again.
    Requeue { job: u32 },
}

struct Replica {
    id: u32,
    gpus: u32,
    created: i64,
    placed: bool,
}

pub(super) struct Simulation<'s> {
    setup: &'s Setup,
    policy: Policy,
    jobs: Vec<Job>,
    cluster: Cluster,
    /// Pending jobs by tier and GPUs, each in order of submission.
    pending: BTreeMap<(bool, u16), BTreeSet<(i64, u32)>>,
    events: BinaryHeap<Reverse<(i64, Event)>>,
    /// Inference pods, oldest first.
    replicas: Vec<Replica>,
    next_gpus: u32,
    replicas_made: u32,
    inference_gpus: u32,
    sizes: ChaCha8Rng,
    choices: ChaCha8Rng,
    ours: Option<Ours>,
    measure: Measure,
}

/// Runs the experiment once.
///
/// # Errors
/// Those of the kernel.
pub fn run(setup: &Setup, policy: Policy, seed: u64) -> Result<Run, Error> {
    let mut simulation = Simulation::new(setup, policy, seed);
    simulation.go()?;
    let Simulation { measure, jobs, cluster, .. } = simulation;
    Ok(measure.finish(policy, seed, setup, &jobs, cluster.used))
}

fn stream(seed: u64, number: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(number);
    rng
}

impl<'s> Simulation<'s> {
    fn new(setup: &'s Setup, policy: Policy, seed: u64) -> Self {
        let mut attributes = stream(seed, 1);
        let end = setup.end_seconds();
        let specs = setup.jobs.jobs.iter().filter(|spec| spec.submit_seconds < end);
        let jobs = specs
            .map(|&spec| {
                let mut job = Job::new(spec, saving_of_tier1(&mut attributes));
                let batch = saving_of_tier2(&mut attributes);
                if !job.is_tier1() {
                    job.saving = batch;
                }
                job
            })
            .collect();
        let mut sizes = stream(seed, 2);
        let next_gpus = draw_size(&mut sizes);
        let guarantee = match policy {
            Policy::MinLostWork => setup.guarantee,
            _ => Guarantee::OFF,
        };
        Self {
            setup,
            policy,
            jobs,
            cluster: Cluster::new(setup.nodes),
            pending: BTreeMap::new(),
            events: BinaryHeap::new(),
            replicas: Vec::new(),
            next_gpus,
            replicas_made: 0,
            inference_gpus: 0,
            sizes,
            choices: stream(seed, 3),
            ours: policy.is_ours().then(|| Ours::new(setup, guarantee)),
            measure: Measure::new(setup),
        }
    }

    fn go(&mut self) -> Result<(), Error> {
        let end = self.setup.end_seconds();
        let warm = self.setup.start_seconds();
        let mut arrived = 0;
        let (mut step, mut counting) = (0, false);
        loop {
            let arrival = self.jobs.get(arrived).map(|job| job.spec.submit_seconds);
            let event = self.events.peek().map(|Reverse((at, _))| *at);
            let now = [Some(step), arrival, event].into_iter().flatten().min().unwrap_or(end);
            if now >= end {
                return Ok(());
            }
            self.measure.advance(now, self.cluster.used, self.inference_gpus_running());
            if !counting && now >= warm {
                counting = true;
                self.jobs.iter_mut().for_each(|job| job.done_before = job.progress(warm));
            }
            while let Some(&Reverse((at, event))) = self.events.peek()
                && at == now
            {
                self.events.pop();
                self.happen(event, now);
            }
            if step == now {
                self.follow_demand(now);
                step += STEP;
            }
            while self.jobs.get(arrived).is_some_and(|job| job.spec.submit_seconds == now) {
                self.queue(arrived as u32);
                arrived += 1;
            }
            self.place_inference(now)?;
            self.place_jobs(now);
        }
    }

    fn happen(&mut self, event: Event, now: i64) {
        let (id, stay) = match event {
            Event::Release => return,
            Event::Requeue { job } => return self.queue(job),
            Event::Finish { job, stay } => (job, stay),
        };
        let job = &mut self.jobs[id as usize];
        if job.stays != stay || job.stay.is_none() {
            return;
        }
        job.stay = None;
        job.done = job.spec.duration_seconds;
        job.finished = Some(now);
        self.cluster.remove_job(id, now);
    }

    fn inference_gpus_running(&self) -> u32 {
        self.replicas.iter().filter(|replica| replica.placed).map(|replica| replica.gpus).sum()
    }

    /// Adds and removes inference pods, newest first, until their GPUs are just not above the demand.
    fn follow_demand(&mut self, now: i64) {
        let (least, most) = self.setup.inference_share;
        let share = least + (most - least) * self.setup.demand.level(now);
        let target = (share * f64::from(self.setup.gpus())) as u32;
        while let Some(last) = self.replicas.last()
            && self.inference_gpus > target
        {
            self.inference_gpus -= last.gpus;
            if last.placed {
                self.cluster.remove_inference(last.id, now);
            } else {
                self.measure.waited(last.created, now);
            }
            self.replicas.pop();
        }
        while self.inference_gpus + self.next_gpus <= target {
            let gpus = self.next_gpus;
            let id = self.replicas_made;
            self.replicas.push(Replica { id, gpus, created: now, placed: false });
            self.replicas_made += 1;
            self.inference_gpus += gpus;
            self.measure.requested(now, gpus);
            self.next_gpus = draw_size(&mut self.sizes);
        }
    }

    fn queue(&mut self, id: u32) {
        let spec = self.jobs[id as usize].spec;
        let class = (!self.jobs[id as usize].is_tier1(), spec.gpus);
        self.pending.entry(class).or_default().insert((spec.submit_seconds, id));
    }

    fn place_inference(&mut self, now: i64) -> Result<(), Error> {
        for at in 0..self.replicas.len() {
            let Replica { id, gpus, created, placed } = self.replicas[at];
            if placed {
                continue;
            }
            let (node, cards) = match self.cluster.room_for(gpus, now) {
                Some(room) => room,
                None if (now - created) % MINUTE != 0 => continue,
                None => match self.preempt(gpus, now)? {
                    Some(room) => room,
                    None => continue,
                },
            };
            let start = self.cluster.hold_inference(node, InferencePod { id, cards }, now);
            self.replicas[at].placed = true;
            self.measure.waited(created, start);
        }
        Ok(())
    }

    /// Evicts what the policy says and returns the place.
    fn preempt(&mut self, gpus: u32, now: i64) -> Result<Option<(usize, u8)>, Error> {
        let clock = Instant::now();
        let placed = match &mut self.ours {
            Some(ours) => ours.choose(&self.cluster, &self.jobs, gpus, now, self.setup)?,
            None => {
                let scene = Scene { cluster: &self.cluster, jobs: &self.jobs, gpus };
                choose(self.policy, &scene, &mut self.choices).map(|choice| Placed {
                    node: choice.node,
                    cards: 0,
                    victims: choice.victims,
                    gangs_broken: 0,
                })
            }
        };
        self.measure.planned(now, clock.elapsed());
        let Some(mut placed) = placed else { return Ok(None) };
        self.measure.broke(now, placed.gangs_broken);
        placed.victims.sort_unstable();
        placed.victims.dedup();
        for &job in &placed.victims {
            self.evict(job, now);
        }
        if placed.cards == 0 {
            placed.cards = self.cluster.soonest(placed.node, gpus);
        }
        Ok(Some((placed.node, placed.cards)))
    }

    fn evict(&mut self, id: u32, now: i64) {
        let grace = self.setup.grace_seconds;
        let job = &mut self.jobs[id as usize];
        let lost = job.lost_gpu_seconds(now, grace);
        let free = job.evict(now, grace);
        self.measure.evicted(now, job, lost);
        self.cluster.remove_job(id, free);
        self.events.push(Reverse((free, Event::Release)));
        let wait = match self.policy {
            Policy::MinLostWork => self.setup.requeue_wait_seconds,
            _ => 0,
        };
        if wait > 0 {
            self.events.push(Reverse((now + wait, Event::Requeue { job: id })));
        } else {
            self.queue(id);
        }
    }

    /// Jobs in order of tier and submission; those behind one that does not fit may pass it if they are of another size.
    fn place_jobs(&mut self, now: i64) {
        let mut closed: Vec<(bool, u16)> = Vec::new();
        loop {
            let next = self
                .pending
                .iter()
                .filter(|(class, jobs)| !closed.contains(class) && !jobs.is_empty())
                .filter_map(|(class, jobs)| jobs.first().map(|&first| (class.0, first, *class)))
                .min();
            let Some((_, (submitted, id), class)) = next else { return };
            if !self.cluster.place_job(id, u32::from(class.1), now) {
                closed.push(class);
                continue;
            }
            if let Some(jobs) = self.pending.get_mut(&class) {
                jobs.remove(&(submitted, id));
            }
            let job = &mut self.jobs[id as usize];
            let finish = job.start(now);
            self.events.push(Reverse((finish, Event::Finish { job: id, stay: job.stays })));
        }
    }
}

fn saving_of_tier1(rng: &mut ChaCha8Rng) -> Saving {
    Saving {
        every: Some((1_800, rng.random_range(0..1_800))),
        save_seconds: 20,
        restart_seconds: 300,
    }
}

/// 50 % every 10 minutes, 30 % every hour, 20 % never.
fn saving_of_tier2(rng: &mut ChaCha8Rng) -> Saving {
    let every = match rng.random_range(0..10) {
        0..5 => Some(600),
        5..8 => Some(3_600),
        _ => None,
    };
    let phase = rng.random_range(0..3_600);
    let every = every.map(|interval: i64| (interval, phase % interval));
    Saving { every, save_seconds: 10, restart_seconds: 60 }
}

/// 1 GPU in 70 %, 2 in 20 %, 8 in 10 % of the pods.
fn draw_size(rng: &mut ChaCha8Rng) -> u32 {
    match rng.random_range(0..10) {
        0..7 => 1,
        7..9 => 2,
        _ => 8,
    }
}
