//! One run.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

use mortise_core::mig::{Chosen, Fleet, MigStrategy};
use mortise_core::{Error, NodeKey};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{CARDS_PER_NODE, MigMix, MigSetup, WARM_UP_LIVES};

/// What one run does.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MigRunSpec {
    /// The profile mix.
    pub mix: MigMix,
    /// Slices asked for at any time, as a multiple of the cards'.
    pub load: f64,
    /// The policy.
    pub policy: MigStrategy,
    /// Seed of arrivals, lives and ties; runs of one seed see the same requests.
    pub seed: u64,
}

/// What came out.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MigRun {
    /// The experiment.
    pub spec: MigRunSpec,
    /// Requests that arrived.
    pub requests: u64,
    /// Requests accepted.
    pub accepted: u64,
    /// Memory slices asked for.
    pub slices: u64,
    /// Memory slices accepted.
    pub accepted_slices: u64,
    /// Cards in use, mean over arrivals.
    pub cards_used: f64,
    /// Time in the kernel per request, microseconds.
    pub us_per_request: f64,
}

impl MigRun {
    /// Share of the slices that was rejected.
    #[must_use]
    pub fn rejected_slices_ratio(&self) -> f64 {
        (self.slices - self.accepted_slices) as f64 / self.slices.max(1) as f64
    }
}

/// Departures by time; times are positive, so that their bits order them.
type Departures = BinaryHeap<Reverse<(u64, u64, u32, u8)>>;

/// Runs one experiment.
///
/// # Errors
/// The kernel refuses the fleet.
pub fn mig_run(setup: &MigSetup, spec: MigRunSpec) -> Result<MigRun, Error> {
    let mut fleet = Fleet::new(setup.model, &nodes(setup.cards), spec.policy, spec.seed)?;
    let kinds = spec.mix.on(setup.model);
    let total: f64 = kinds.iter().map(|(_, weight)| weight).sum();
    let size = |index: usize| f64::from(setup.model.profiles[index].memory_slices);
    let mean: f64 =
        kinds.iter().map(|&(profile, weight)| weight * size(profile.index())).sum::<f64>() / total;
    let capacity = setup.cards as f64 * f64::from(setup.model.memory_slices);
    let rate = spec.load * capacity / mean;
    let mut rng = ChaCha8Rng::seed_from_u64(spec.seed);
    let exponential = |rng: &mut ChaCha8Rng| -(1.0 - rng.random::<f64>()).ln();
    let mut departures = Departures::new();
    let mut chosen: Vec<Chosen> = Vec::new();
    let (warm, end) = (f64::from(WARM_UP_LIVES), f64::from(WARM_UP_LIVES + setup.lives));
    let mut run = MigRun {
        spec,
        requests: 0,
        accepted: 0,
        slices: 0,
        accepted_slices: 0,
        cards_used: 0.0,
        us_per_request: 0.0,
    };
    let (mut time, mut arrivals) = (0.0, 0u64);
    let started = Instant::now();
    loop {
        time += exponential(&mut rng) / rate;
        let mut drawn = rng.random::<f64>() * total;
        let life = exponential(&mut rng);
        if time >= end {
            break;
        }
        arrivals += 1;
        let kind = kinds.iter().find(|(_, weight)| {
            drawn -= weight;
            drawn < 0.0
        });
        let profile = kind.unwrap_or(&kinds[kinds.len() - 1]).0;
        depart(&mut fleet, &mut departures, time)?;
        fleet.observe(profile, 1)?;
        let fits = fleet.choose(profile, 1, &mut chosen)?.is_ok();
        if fits {
            let Chosen { card, placement } = chosen[0];
            fleet.place(card, placement)?;
            departures.push(Reverse(((time + life).to_bits(), arrivals, card.0, placement.0)));
        }
        if time >= warm {
            let slices = u64::from(setup.model.profiles[profile.index()].memory_slices);
            run.requests += 1;
            run.slices += slices;
            run.accepted += u64::from(fits);
            run.accepted_slices += if fits { slices } else { 0 };
            run.cards_used += fleet.cards_used() as f64;
        }
    }
    run.cards_used /= run.requests.max(1) as f64;
    run.us_per_request = started.elapsed().as_secs_f64() * 1e6 / arrivals.max(1) as f64;
    Ok(run)
}

fn depart(fleet: &mut Fleet, departures: &mut Departures, time: f64) -> Result<(), Error> {
    while let Some(&Reverse((at, _, card, placement))) = departures.peek() {
        if f64::from_bits(at) > time {
            break;
        }
        departures.pop();
        fleet
            .release(mortise_core::mig::CardId(card), mortise_core::mig::PlacementId(placement))?;
    }
    Ok(())
}

fn nodes(cards: usize) -> Vec<(NodeKey, u8)> {
    let per_node = usize::from(CARDS_PER_NODE);
    let key = |node: usize| NodeKey(node as u64 + 1);
    let mut nodes: Vec<_> = (0..cards / per_node).map(|node| (key(node), CARDS_PER_NODE)).collect();
    if !cards.is_multiple_of(per_node) {
        nodes.push((key(nodes.len()), (cards % per_node) as u8));
    }
    nodes
}
