//! A decision: candidates, the request's column, the scan, the devices.

use super::Kernel;
use super::types::{Candidates, Decision, NodeScore};
use crate::error::Error;
use crate::filter::{self, Reason, memory_fits};
use crate::hash::mix64;
use crate::mig::MigInstances;
use crate::request::PodRequest;
use crate::score::{Placed, Selection, Strategy, UNFIT, any_devices};
use crate::workers::{OneThread, Workers};

/// Working memory of a decision, kept between decisions.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// Position of the request's column.
    column: usize,
    block_least: Vec<i64>,
    pub(super) candidates: Vec<u32>,
    /// Slots with a reservation that yields to the pod, rising: what it costs there.
    yielding: Vec<(u32, Result<Placed, Reason>)>,
    /// Their costs in the column.
    masked: Vec<i64>,
    /// Of a MIG pod, by candidate.
    pub(super) mig_costs: Vec<Result<i64, Reason>>,
}

impl Kernel {
    /// Chooses the best node for a pod: least cost, then the tie hash of seed, node key and `tie_salt`, then node key.
    ///
    /// A salt of 0 in every decision is one fixed order of the nodes, a new salt per decision is a random choice of
    /// equals. `scores`, if given, receives one entry per candidate; for [`Candidates::All`] one per node in the order
    /// of [`Cluster::nodes`]. Allocates nothing once columns and buffers have grown to the number of nodes.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] or [`Error::LimitExceeded`] for the request, [`Error::StaleNode`] or
    /// [`Error::UnknownNode`] for a candidate, [`Error::BadLength`] for `scores`.
    pub fn decide(
        &mut self,
        pod: &PodRequest,
        candidates: Candidates<'_>,
        tie_salt: u64,
        scores: Option<&mut [NodeScore]>,
    ) -> Result<Decision, Error> {
        self.decide_with(&OneThread, pod, candidates, tie_salt, scores)
    }

    /// As [`Kernel::decide`], with the same answer, on the threads that `workers` has: they share the work of decisions
    /// that look at every node anew, the first of a kind and the first after the mix was relearned.
    ///
    /// # Errors
    /// As [`Kernel::decide`].
    pub fn decide_with(
        &mut self,
        workers: &dyn Workers,
        pod: &PodRequest,
        candidates: Candidates<'_>,
        tie_salt: u64,
        scores: Option<&mut [NodeScore]>,
    ) -> Result<Decision, Error> {
        pod.validate()?;
        self.resolve_candidates(candidates, scores.as_deref())?;
        self.decisions += 1;
        let salt = match self.config.strategy {
            Strategy::Random => mix64(tie_salt ^ mix64(self.decisions)),
            _ => tie_salt,
        };
        self.scorer.refresh(&self.cluster);
        self.memory_floor.refresh(&self.cluster);
        let base = &pod.without_mig();
        self.find_yielding(base);
        self.scratch.column = self.columns.prepare(&self.cluster, &mut self.scorer, base, workers);
        let mut selection = Selection::new(self.config.seed, salt);
        match candidates {
            _ if !pod.mig.is_none() => {
                self.mig.refresh(&self.cluster);
                self.scan_mig(pod, base, candidates, &mut selection);
            }
            Candidates::All => self.scan_all(pod, &mut selection),
            Candidates::Refs(_) => self.scan_listed(pod, &mut selection),
        }
        if let Some(scores) = scores {
            self.write_scores(pod, candidates, salt, scores);
        }
        Ok(self.decision(pod, candidates, salt, &selection))
    }

    fn resolve_candidates(
        &mut self,
        candidates: Candidates<'_>,
        scores: Option<&[NodeScore]>,
    ) -> Result<(), Error> {
        let count = match candidates {
            Candidates::All => self.cluster.len(),
            Candidates::Refs(refs) => refs.len(),
        };
        if let Some(scores) = scores
            && scores.len() != count
        {
            return Err(Error::BadLength {
                what: "scores".into(),
                len: scores.len(),
                expected: format!("{count}, one per candidate"),
            });
        }
        let slots = &mut self.scratch.candidates;
        slots.clear();
        if let Candidates::Refs(refs) = candidates {
            for (position, &node) in refs.iter().enumerate() {
                slots.push(self.cluster.check_ref(node, || format!("candidates[{position}]"))?);
            }
        }
        Ok(())
    }

    /// Nodes that offer this pod more than others: its own reservation, and those of lower priority.
    fn find_yielding(&mut self, pod: &PodRequest) {
        self.scratch.yielding.clear();
        for &slot in self.cluster.reserved_slots() {
            let index = slot as usize;
            if !self.cluster.yields_to(index, pod.uid, pod.priority) {
                continue;
            }
            let view = self.cluster.view_for(index, pod.uid, pod.priority);
            let placed = filter::feasible(&view, pod)
                .and_then(|()| self.scorer.place_on(&view, pod).ok_or(Reason::InsufficientGpu));
            self.scratch.yielding.push((slot, placed));
        }
    }

    fn scan_all(&mut self, pod: &PodRequest, selection: &mut Selection) {
        let Scratch { column, block_least, yielding, masked, .. } = &mut self.scratch;
        let column = self.columns.at_mut(*column);
        masked.clear();
        for &(slot, placed) in yielding.iter() {
            masked.push(column.mask(slot as usize));
            if let Ok(placed) = placed {
                selection.offer(&self.cluster, slot as usize, placed.cost);
            }
        }
        selection.scan(&self.cluster, column, pod.memory, &self.memory_floor, block_least);
        for (&(slot, _), &cost) in yielding.iter().zip(masked.iter()) {
            column.unmask(slot as usize, cost);
        }
    }

    fn scan_listed(&self, pod: &PodRequest, selection: &mut Selection) {
        let Scratch { column, candidates, yielding, .. } = &self.scratch;
        let column = self.columns.at(*column);
        let free = self.cluster.memory_column();
        for &slot in candidates {
            let index = slot as usize;
            let cost = match own(yielding, slot) {
                Some(placed) => placed.map_or(UNFIT, |placed| placed.cost),
                None if memory_fits(free[index], pod.memory) => column.cost[index],
                None => UNFIT,
            };
            if cost != UNFIT {
                selection.offer(&self.cluster, index, cost);
            }
        }
    }

    fn decision(
        &self,
        pod: &PodRequest,
        candidates: Candidates<'_>,
        salt: u64,
        selection: &Selection,
    ) -> Decision {
        let feasible = selection.feasible;
        let Some((rank, slot)) = selection.best else {
            let mig = MigInstances::NONE;
            return Decision { best: None, mig, feasible, score: i64::MIN, candidate: None };
        };
        let base = &pod.without_mig();
        let devices = self.score_of(base, slot as u32, salt).devices;
        let mig = if pod.mig.is_none() {
            MigInstances::NONE
        } else {
            let placed = self.place_mig(pod, slot, self.placed(base, slot as u32));
            placed.map_or(MigInstances::NONE, |(_, mig)| mig)
        };
        let candidate = match candidates {
            Candidates::All => None,
            Candidates::Refs(_) => {
                let position = self.scratch.candidates.iter().position(|&c| c as usize == slot);
                position.map(|position| position as u32)
            }
        };
        let best = Some((self.cluster.node_ref(slot), devices));
        Decision { best, mig, feasible, score: -rank.cost, candidate }
    }

    fn write_scores(
        &mut self,
        pod: &PodRequest,
        candidates: Candidates<'_>,
        salt: u64,
        scores: &mut [NodeScore],
    ) {
        if let Candidates::All = candidates
            && self.scratch.candidates.is_empty()
        {
            let live = (0..self.cluster.slots()).filter(|&slot| self.cluster.is_live(slot));
            self.scratch.candidates.extend(live.map(|slot| slot as u32));
        }
        for (position, score) in scores.iter_mut().enumerate() {
            *score = self.score_of(pod, self.scratch.candidates[position], salt);
            if let Some(&cost) = self.scratch.mig_costs.get(position)
                && !pod.mig.is_none()
            {
                let devices = score.devices;
                *score = NodeScore::of(cost.map(|cost| Placed { cost, devices }));
            }
        }
    }

    /// A slot's entry in the column that was prepared for the request.
    fn score_of(&self, pod: &PodRequest, slot: u32, salt: u64) -> NodeScore {
        let index = slot as usize;
        let placed = self.placed(pod, slot);
        let mut score = NodeScore::of(placed);
        if self.config.strategy == Strategy::Random && placed.is_ok() {
            let view = self.cluster.view_for(index, pod.uid, pod.priority);
            let draw = mix64(self.config.seed ^ view.key.0 ^ salt);
            score.devices = any_devices(&view.shape, pod.gpu, draw).unwrap_or(score.devices);
        }
        score
    }

    /// Cost and devices of a slot in the column that was prepared for the request.
    pub(super) fn placed(&self, pod: &PodRequest, slot: u32) -> Result<Placed, Reason> {
        let index = slot as usize;
        own(&self.scratch.yielding, slot).unwrap_or_else(|| {
            let column = self.columns.at(self.scratch.column);
            if column.cost[index] != UNFIT
                && memory_fits(self.cluster.memory_free(index), pod.memory)
            {
                return Ok(Placed { cost: column.cost[index], devices: column.devices[index] });
            }
            let cluster = &self.cluster;
            let unfit = filter::check_parts(
                &cluster.shape(index),
                cluster.shares_offered(index),
                cluster.memory_free(index),
                pod,
            );
            Err(unfit.err().map_or(Reason::InsufficientGpu, |unfit| unfit.reason))
        })
    }
}

/// What the pod costs on a slot whose reservations yield to it.
fn own(yielding: &[(u32, Result<Placed, Reason>)], slot: u32) -> Option<Result<Placed, Reason>> {
    if yielding.is_empty() {
        return None;
    }
    let found = yielding.binary_search_by_key(&slot, |&(slot, _)| slot);
    found.ok().map(|position| yielding[position].1)
}
