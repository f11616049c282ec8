//! The best plan by trying every set of victims, written from the definitions and on freshly loaded clusters.

use std::collections::BTreeMap;

use mortise_core::filter;
use mortise_core::preempt::{Cost, Disruption, NONE, Plan, yields};
use mortise_core::{Cluster, DeviceMask, GpuRequest, NodeRef, PodRecord, PodUid, Tier};

use crate::world::{NOW, World, stranded};

/// Victim sets that are allowed, each with its cost.
pub(crate) struct Oracle<'w> {
    world: &'w World,
    /// Pods that may go.
    pub(crate) candidates: Vec<PodUid>,
    guaranteed: Vec<PodUid>,
}

impl<'w> Oracle<'w> {
    pub(crate) fn new(world: &'w World) -> Self {
        let guaranteed = guaranteed(world);
        let preemptor = &world.members[0];
        let mut candidates = Vec::new();
        for pod in world.nodes.iter().flat_map(|node| &node.pods) {
            let foreign = pod.foreign && !world.facts_of(pod.uid).consent;
            let tier = if guaranteed.contains(&pod.uid) { Tier::Training } else { pod.tier };
            let low = yields((tier, pod.priority), (preemptor.tier, preemptor.priority));
            if !pod.terminating && !foreign && low {
                candidates.push(pod.uid);
            }
        }
        Self { world, candidates, guaranteed }
    }

    /// The cost of evicting exactly these pods, or `None` if units or limits forbid it.
    pub(crate) fn cost(&self, victims: &[PodUid]) -> Option<Cost> {
        let mut cost = Cost::default();
        let mut by_gang: BTreeMap<u32, Vec<PodUid>> = BTreeMap::new();
        for &uid in victims {
            cost.lost_milli_gpu_seconds += lost(self.world, uid);
            match self.world.facts_of(uid).gang {
                NONE => {
                    cost.units += 1;
                    cost.tier1_units += u32::from(self.tier1(uid));
                }
                gang => by_gang.entry(gang).or_default().push(uid),
            }
        }
        for (gang, taken) in by_gang {
            let rule = self.world.gangs[gang as usize];
            let members = running_members(self.world, gang);
            let surplus = match rule.disruption {
                Disruption::All => 0,
                Disruption::Single => members.len().saturating_sub(rule.min_members as usize),
            };
            if taken.len() > surplus && taken.len() < members.len() {
                return None;
            }
            let singles = taken.iter().filter(|&&uid| self.tier1(uid)).count();
            let any = usize::from(singles > 0);
            let units = taken.len().min(surplus + 1);
            cost.units += units as u32;
            cost.tier1_units +=
                if singles == taken.len() { units } else { units.min(singles).max(any) } as u32;
        }
        for (budget, rule) in self.world.budgets.iter().enumerate() {
            let taken =
                victims.iter().filter(|&&uid| self.under(uid, budget as u32)).count() as u32;
            cost.budget_violations += taken.saturating_sub(rule.allowed);
        }
        let policy = &self.world.policy;
        let evicted: u64 =
            victims.iter().map(|&uid| u64::from(self.world.record(uid).gpu.total_milli())).sum();
        let asked: u64 = self.world.members.iter().map(|m| u64::from(m.gpu.count()) * 1_000).sum();
        let over = policy
            .ratio_permille
            .is_some_and(|permille| asked > 0 && evicted * 1_000 > asked * u64::from(permille));
        if over || (policy.hard_budgets && cost.budget_violations > 0) { None } else { Some(cost) }
    }

    fn tier1(&self, uid: PodUid) -> bool {
        self.world.record(uid).tier == Tier::Training || self.guaranteed.contains(&uid)
    }

    fn under(&self, uid: PodUid, budget: u32) -> bool {
        let facts = self.world.facts_of(uid);
        let first = facts.first_budget as usize;
        self.world.budget_refs[first..first + facts.budget_count as usize].contains(&budget)
    }

    /// Every allowed victim set with its cost.
    fn sets(&self) -> impl Iterator<Item = (Vec<PodUid>, Cost)> + '_ {
        assert!(self.candidates.len() <= 16, "too many pods to try every set");
        (0u32..1 << self.candidates.len()).filter_map(|mask| {
            let victims: Vec<PodUid> = (0..self.candidates.len())
                .filter(|bit| mask >> bit & 1 == 1)
                .map(|bit| self.candidates[bit])
                .collect();
            self.cost(&victims).map(|cost| (victims, cost))
        })
    }

    /// The least cost for one pod, and the node.
    pub(crate) fn best_for_one(&self) -> Option<(Cost, u64)> {
        let request = &self.world.members[0];
        let (now, refs) = self.world.cluster_without(|_| false);
        let mut best: Option<(Cost, u64)> = None;
        for (victims, cost) in self.sets() {
            if best.is_some_and(|(best, _)| cost.of_victims() > best.of_victims()) {
                continue;
            }
            let after = self.without(&victims);
            for (node, before) in after.nodes().zip(&refs) {
                let slot = node.index as usize;
                if filter::feasible(&after.view(slot), request).is_err() {
                    continue;
                }
                let base = stranded(&now.shape(before.index as usize));
                let left = place_options(&after, node, &request.gpu)
                    .into_iter()
                    .map(|devices| {
                        let shape = after.shape(slot);
                        stranded(&shape.after(request.cpu, request.gpu.milli(), devices))
                    })
                    .min()
                    .expect("a feasible pod has devices");
                let full = Cost { stranded_milli: left - base, ..cost };
                let entry = (full, after.key(slot).0);
                if best.is_none_or(|best| entry < best) {
                    best = Some(entry);
                }
            }
        }
        best
    }

    /// The least cost for the whole group, without the stranded part.
    pub(crate) fn best_for_group(&self) -> Option<Cost> {
        let mut best: Option<Cost> = None;
        for (victims, cost) in self.sets() {
            if best.is_none_or(|best| cost < best) && self.group_fits(&victims) {
                best = Some(cost);
            }
        }
        best
    }

    /// Whether all members fit once these pods, and the terminating ones, are gone.
    pub(crate) fn group_fits(&self, victims: &[PodUid]) -> bool {
        let mut world = self.world.clone();
        for node in &mut world.nodes {
            let gone = |pod: &PodRecord| pod.terminating || victims.contains(&pod.uid);
            node.pods.retain(|pod| !gone(pod));
        }
        place_rest(&mut world, 0)
    }

    /// As [`Oracle::group_fits`], each member on the node the plan gave it.
    pub(crate) fn group_fits_on(&self, plan: &Plan, victims: &[PodUid]) -> bool {
        let mut world = self.world.clone();
        let (cluster, _) = world.cluster_without(|_| false);
        for node in &mut world.nodes {
            node.pods.retain(|pod| !pod.terminating && !victims.contains(&pod.uid));
        }
        let nodes: Vec<u64> = plan
            .placements
            .iter()
            .map(|placement| cluster.key(placement.node.index as usize).0)
            .collect();
        place_rest_on(&mut world, 0, &nodes)
    }

    fn without(&self, victims: &[PodUid]) -> Cluster {
        let world = self.world;
        world.cluster_without(|uid| victims.contains(&uid) || world.record(uid).terminating).0
    }
}

/// Places member `at` and all after it, trying every node and every device option.
fn place_rest(world: &mut World, at: usize) -> bool {
    place_rest_on(world, at, &[])
}

/// As [`place_rest`]; `on` may give the only node of each member.
fn place_rest_on(world: &mut World, at: usize, on: &[u64]) -> bool {
    let Some(member) = world.members.get(at).copied() else { return true };
    let (cluster, refs) = world.cluster_without(|_| false);
    for (index, &node) in refs.iter().enumerate() {
        let elsewhere = on.get(at).is_some_and(|&key| key != world.nodes[index].key);
        if elsewhere || filter::feasible(&cluster.view(node.index as usize), &member).is_err() {
            continue;
        }
        for devices in place_options(&cluster, node, &member.gpu) {
            let mut record = PodRecord::new(member.uid, member.gpu, devices);
            record.cpu = member.cpu;
            record.memory = member.memory;
            world.nodes[index].pods.push(record);
            let placed = place_rest_on(world, at + 1, on);
            world.nodes[index].pods.pop();
            if placed {
                return true;
            }
        }
    }
    false
}

fn place_options(cluster: &Cluster, node: NodeRef, gpu: &GpuRequest) -> Vec<DeviceMask> {
    let shape = cluster.shape(node.index as usize);
    match *gpu {
        GpuRequest::None => vec![DeviceMask::EMPTY],
        GpuRequest::Whole { count } => {
            let free: Vec<usize> =
                (0..16).filter(|&device| shape.free[device].get() == 1_000).collect();
            let mask = free[..usize::from(count)].iter().fold(DeviceMask::EMPTY, |m, &d| m.with(d));
            vec![mask]
        }
        GpuRequest::Share { milli } => (0..usize::from(shape.gpu_count))
            .filter(|&device| shape.free[device] >= milli)
            .map(DeviceMask::only)
            .collect(),
    }
}

fn running_members(world: &World, gang: u32) -> Vec<PodUid> {
    world
        .nodes
        .iter()
        .flat_map(|node| &node.pods)
        .filter(|pod| !pod.terminating && world.facts_of(pod.uid).gang == gang)
        .map(|pod| pod.uid)
        .collect()
}

fn saved(world: &World, uid: PodUid) -> Option<i64> {
    let valid = |uid: PodUid| {
        let pod = world.record(uid);
        pod.checkpoint_seconds.filter(|&at| at <= NOW && at >= pod.start_seconds)
    };
    match world.facts_of(uid).gang {
        NONE => valid(uid),
        gang => running_members(world, gang).into_iter().filter_map(valid).max(),
    }
}

pub(crate) fn lost(world: &World, uid: PodUid) -> i64 {
    let (pod, facts) = (world.record(uid), world.facts_of(uid));
    let mut since =
        NOW - saved(world, uid).map_or(pod.start_seconds, |at| at.max(pod.start_seconds));
    if let Some(save) = facts.save_seconds
        && save <= facts.grace_seconds
    {
        since = since.min(i64::from(save));
    }
    i64::from(pod.gpu.total_milli()) * (since + i64::from(facts.restart_seconds))
}

/// Tenant, evictions, start, gang, first pod: the order in which jobs are granted the guarantee.
type Job = (u32, std::cmp::Reverse<u32>, i64, u32, PodUid);

/// Batch pods that hold the progress guarantee, job by job until the tenant's budget does not cover one.
fn guaranteed(world: &World) -> Vec<PodUid> {
    let preemptor = &world.members[0];
    let mut jobs: BTreeMap<Job, Vec<PodUid>> = BTreeMap::new();
    let mut heads: BTreeMap<(u32, u32), Job> = BTreeMap::new();
    let mut asking = Vec::new();
    for pod in world.nodes.iter().flat_map(|node| &node.pods) {
        let facts = world.facts_of(pod.uid);
        let after = world.policy.guarantee_after;
        let foreign = pod.foreign && !facts.consent;
        let victim = yields((pod.tier, pod.priority), (preemptor.tier, preemptor.priority));
        if pod.tier == Tier::Batch
            && !pod.terminating
            && !foreign
            && victim
            && ((after > 0 && facts.unsaved_evictions >= after)
                || lost(world, pod.uid) >= world.policy.guarantee_lost_milli_gpu_seconds)
            && saved(world, pod.uid).is_none()
        {
            asking.push((
                facts.tenant,
                std::cmp::Reverse(facts.unsaved_evictions),
                pod.start_seconds,
                facts.gang,
                pod.uid,
            ));
        }
    }
    asking.sort();
    let mut previous: Option<(u32, u32)> = None;
    for key in asking {
        let id = (key.0, key.3);
        if key.3 != NONE && previous == Some(id) {
            let head = heads[&id];
            jobs.get_mut(&head).expect("the head is there").push(key.4);
        } else {
            heads.insert(id, key);
            jobs.insert(key, vec![key.4]);
        }
        previous = Some(id);
    }
    let mut left: BTreeMap<u32, u64> = BTreeMap::new();
    let mut kept = Vec::new();
    for (key, pods) in jobs {
        let budget = world
            .tenants
            .get(key.0 as usize)
            .map_or(world.policy.guarantee_milli, |t| t.guarantee_milli);
        let left = left.entry(key.0).or_insert(budget);
        let milli: u64 =
            pods.iter().map(|&uid| u64::from(world.record(uid).gpu.total_milli())).sum();
        if milli <= *left {
            *left -= milli;
            kept.extend(pods);
        }
    }
    kept
}
