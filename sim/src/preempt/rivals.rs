//! The other schedulers' ways to choose victims, each from its description. A job is taken whole, whatever they name.

use std::cmp::Reverse;

use rand::RngExt;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::cluster::Cluster;
use super::job::Job;
use super::policy::Policy;

/// A node and the jobs that must go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Choice {
    pub(super) node: usize,
    pub(super) victims: Vec<u32>,
}

/// What a policy sees.
pub(super) struct Scene<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) jobs: &'a [Job],
    pub(super) gpus: u32,
}

impl Scene<'_> {
    fn tier1(&self, job: u32) -> bool {
        self.jobs[job as usize].is_tier1()
    }

    fn started(&self, job: u32) -> i64 {
        self.jobs[job as usize].stay.map_or(0, |stay| stay.start)
    }

    fn job_gpus(&self, job: u32) -> u32 {
        u32::from(self.jobs[job as usize].spec.gpus)
    }

    /// Jobs of a node with their GPUs there.
    fn on(&self, node: usize) -> Vec<(u32, u32)> {
        let pods = &self.cluster.nodes[node].jobs;
        pods.iter().map(|pod| (pod.job, pod.cards.count_ones())).collect()
    }

    fn open(&self, node: usize) -> u32 {
        self.cluster.nodes[node].open.count_ones()
    }

    fn running(&self) -> Vec<u32> {
        let pods = self.cluster.nodes.iter().flat_map(|node| &node.jobs);
        pods.filter(|pod| pod.part == 0).map(|pod| pod.job).collect()
    }

    fn nodes(&self) -> std::ops::Range<usize> {
        0..self.cluster.nodes.len()
    }
}

/// The victims of a policy for an inference pod that fits nowhere.
pub(super) fn choose(policy: Policy, scene: &Scene<'_>, rng: &mut ChaCha8Rng) -> Option<Choice> {
    match policy {
        Policy::KubeDefault => kube_default(scene),
        Policy::VolcanoRoi => volcano_roi(scene),
        Policy::KueueOrder => kueue_order(scene),
        Policy::KaiOrder => kai_order(scene),
        Policy::Random => random(scene, rng),
        Policy::MinLostWork | Policy::MinLostWorkStrict => None,
    }
}

/// Per node: remove all, give back the most important first; then lowest top priority, smallest sum of priorities,
/// fewest victims, latest start of the top-priority victim.
fn kube_default(scene: &Scene<'_>) -> Option<Choice> {
    let victims_of = |node: usize| {
        let mut pods = scene.on(node);
        let all: u32 = pods.iter().map(|&(_, gpus)| gpus).sum();
        let mut spare = (scene.open(node) + all).checked_sub(scene.gpus)?;
        pods.sort_by_key(|&(job, _)| (!scene.tier1(job), scene.started(job), job));
        pods.retain(|&(_, gpus)| {
            let back = gpus <= spare;
            spare -= if back { gpus } else { 0 };
            !back
        });
        Some(pods)
    };
    let rank = |pods: &[(u32, u32)]| {
        let priority = |job: u32| i64::from(scene.tier1(job));
        let top = pods.iter().map(|&(job, _)| priority(job)).max().unwrap_or(0);
        let sum: i64 = pods.iter().map(|&(job, _)| priority(job) + (1 << 31)).sum();
        let of_top = pods.iter().filter(|&&(job, _)| priority(job) == top);
        let earliest = of_top.map(|&(job, _)| scene.started(job)).min().unwrap_or(0);
        (top, sum, pods.len(), Reverse(earliest))
    };
    let candidates = scene.nodes().filter_map(|node| victims_of(node).map(|pods| (node, pods)));
    candidates.min_by_key(|(node, pods)| (rank(pods), *node)).map(|(node, pods)| Choice {
        node,
        victims: pods.into_iter().map(|(job, _)| job).collect(),
    })
}

/// Tier-1 jobs, return, node.
type Rank = (u32, Reverse<u64>, usize);

/// Bundles by freed-toward-need per GPU killed, lower tiers first; the shortest prefix that fits; the node with the best
/// return.
fn volcano_roi(scene: &Scene<'_>) -> Option<Choice> {
    // Fractions as thousandths of a thousandth: GPUs are few.
    let roi = |freed: u32, killed: u32| u64::from(freed) * 1_000_000 / u64::from(killed.max(1));
    let mut best: Option<(Rank, Choice)> = None;
    for node in scene.nodes() {
        let Some(need) = scene.gpus.checked_sub(scene.open(node)) else { continue };
        let mut bundles = scene.on(node);
        bundles.sort_by_key(|&(job, here)| {
            (scene.tier1(job), Reverse(roi(here.min(need), scene.job_gpus(job))), job)
        });
        let (mut freed, mut killed, mut tier1) = (0, 0, 0);
        let mut victims = Vec::new();
        for (job, here) in bundles {
            if freed >= need {
                break;
            }
            freed += here;
            killed += scene.job_gpus(job);
            tier1 += u32::from(scene.tier1(job));
            victims.push(job);
        }
        if freed < need {
            continue;
        }
        let rank = (tier1, Reverse(roi(freed.min(need), killed)), node);
        if best.as_ref().is_none_or(|(other, _)| rank < *other) {
            best = Some((rank, Choice { node, victims }));
        }
    }
    best.map(|(_, choice)| choice)
}

/// Takes jobs in `order` over the whole cluster until the pod fits a node.
fn until_it_fits(scene: &Scene<'_>, order: &[u32]) -> Option<Choice> {
    let mut open: Vec<u32> = scene.nodes().map(|node| scene.open(node)).collect();
    let mut on: Vec<Vec<(usize, u32)>> = vec![Vec::new(); scene.jobs.len()];
    for node in scene.nodes() {
        for (job, gpus) in scene.on(node) {
            on[job as usize].push((node, gpus));
        }
    }
    for (taken, &job) in order.iter().enumerate() {
        for &(node, gpus) in &on[job as usize] {
            open[node] += gpus;
            if open[node] >= scene.gpus {
                return Some(Choice { node, victims: order[..=taken].to_vec() });
            }
        }
    }
    None
}

/// Lower priority first, most recently admitted first; then give back, last taken last, what the node does not need.
fn kueue_order(scene: &Scene<'_>) -> Option<Choice> {
    let mut order = scene.running();
    order.sort_by_key(|&job| (scene.tier1(job), Reverse(scene.started(job)), job));
    let mut choice = until_it_fits(scene, &order)?;
    let here = |job: u32| {
        let pods = scene.on(choice.node);
        pods.iter().filter(|&&(on, _)| on == job).map(|&(_, gpus)| gpus).sum::<u32>()
    };
    let freed: u32 = choice.victims.iter().map(|&job| here(job)).sum();
    let mut spare = scene.open(choice.node) + freed - scene.gpus;
    let mut kept = Vec::new();
    for &job in choice.victims.iter().rev() {
        let gpus = here(job);
        if gpus <= spare {
            spare -= gpus;
        } else {
            kept.push(job);
        }
    }
    choice.victims = kept;
    Some(choice)
}

/// The queue that uses most gives first, in it lower priority and later submission first, until the pod fits.
fn kai_order(scene: &Scene<'_>) -> Option<Choice> {
    let tenant = |job: u32| scene.jobs[job as usize].spec.tenant;
    let submitted = |job: u32| scene.jobs[job as usize].spec.submit_seconds;
    let mut left = scene.running();
    left.sort_by_key(|&job| (scene.tier1(job), Reverse(submitted(job)), Reverse(job)));
    let tenants = left.iter().map(|&job| tenant(job) + 1).max().unwrap_or(0);
    let mut used = vec![0u32; tenants as usize];
    left.iter().for_each(|&job| used[tenant(job) as usize] += scene.job_gpus(job));
    let mut order = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let lowest = scene.tier1(left[0]);
        let same = left.iter().take_while(|&&job| scene.tier1(job) == lowest);
        let next = same
            .enumerate()
            .min_by_key(|&(at, &job)| (Reverse(used[tenant(job) as usize]), at))
            .map_or(0, |(at, _)| at);
        let job = left.remove(next);
        used[tenant(job) as usize] -= scene.job_gpus(job);
        order.push(job);
        if let Some(choice) = fits_after(scene, &order) {
            return Some(choice);
        }
    }
    None
}

fn fits_after(scene: &Scene<'_>, order: &[u32]) -> Option<Choice> {
    let last = *order.last()?;
    let touched = scene.nodes().filter(|&n| scene.on(n).iter().any(|&(job, _)| job == last));
    for node in touched {
        let pods = scene.on(node);
        let freed: u32 = pods.iter().filter(|(job, _)| order.contains(job)).map(|&(_, g)| g).sum();
        if scene.open(node) + freed >= scene.gpus {
            return Some(Choice { node, victims: order.to_vec() });
        }
    }
    None
}

/// A random node among those that need the fewest tier-1 jobs, random victims of the lower tier first.
fn random(scene: &Scene<'_>, rng: &mut ChaCha8Rng) -> Option<Choice> {
    let mut choices: Vec<(usize, Choice)> = Vec::new();
    for node in scene.nodes() {
        let mut pods = scene.on(node);
        pods.shuffle(rng);
        pods.sort_by_key(|&(job, _)| scene.tier1(job));
        let mut open = scene.open(node);
        let mut victims = Vec::new();
        for (job, gpus) in pods {
            if open >= scene.gpus {
                break;
            }
            open += gpus;
            victims.push(job);
        }
        if open >= scene.gpus {
            let tier1 = victims.iter().filter(|&&job| scene.tier1(job)).count();
            choices.push((tier1, Choice { node, victims }));
        }
    }
    let least = choices.iter().map(|&(tier1, _)| tier1).min()?;
    choices.retain(|&(tier1, _)| tier1 == least);
    let at = rng.random_range(0..choices.len());
    Some(choices.swap_remove(at).1)
}
