//! Which sets of instances can exist on one card, and which layouts serve a demand on many.

use std::collections::HashMap;

use super::geometry::{Geometry, LayoutId};
use crate::hash::MixBuild;

/// A layout that holds exactly `counts` instances by profile, with low starts first; `None` if no such set can exist.
#[must_use]
pub fn exact(geometry: &Geometry, counts: &[u32]) -> Option<LayoutId> {
    let same = |layout: &LayoutId| {
        let held = geometry.counts(*layout);
        held.len() == counts.len() && held.iter().zip(counts).all(|(&h, &c)| u32::from(h) == c)
    };
    geometry.layouts().find(same)
}

/// The largest part of `counts` that can exist on one card: most memory slices, then most instances.
#[must_use]
pub fn largest_within(geometry: &Geometry, counts: &[u32]) -> LayoutId {
    let within = |layout: &LayoutId| {
        let held = geometry.counts(*layout);
        held.iter().zip(counts).all(|(&held, &count)| u32::from(held) <= count)
    };
    let size = |layout: &LayoutId| {
        (geometry.used(*layout).count_ones(), geometry.instances(*layout).count())
    };
    // Of equals the first found: max_by_key would take the last.
    geometry.layouts().rev().filter(within).max_by_key(size).unwrap_or(LayoutId::EMPTY)
}

/// Why a set cannot exist, as the first rule it breaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Impossible {
    /// More memory slices than the card has.
    Memory {
        /// Slices of the set.
        need: u32,
    },
    /// More compute slices than the card has.
    Compute {
        /// Slices of the set.
        need: u32,
    },
    /// More instances of one profile than a card holds.
    Instances {
        /// Index of the profile.
        profile: usize,
    },
    /// More than one instance with media engines.
    Media,
    /// Enough slices, but no combination of legal starts.
    Starts,
}

/// The rule that `counts` breaks; meant for sets of which [`exact`] found none.
#[must_use]
pub fn why_impossible(geometry: &Geometry, counts: &[u32]) -> Impossible {
    let model = geometry.model();
    let sum = |of: fn(&super::Profile) -> u8| {
        let each = model.profiles.iter().zip(counts).map(|(p, &n)| n.saturating_mul(of(p).into()));
        each.fold(0u32, u32::saturating_add)
    };
    let memory = sum(|profile| profile.memory_slices);
    let compute = sum(|profile| profile.compute_slices);
    let media = sum(|profile| u8::from(profile.media));
    let over = model.profiles.iter().zip(counts).position(|(p, &n)| n > u32::from(p.max_instances));
    if media > 1 {
        Impossible::Media
    } else if memory > u32::from(model.memory_slices) {
        Impossible::Memory { need: memory }
    } else if compute > u32::from(model.compute_slices) {
        Impossible::Compute { need: compute }
    } else if let Some(profile) = over {
        Impossible::Instances { profile }
    } else {
        Impossible::Starts
    }
}

/// How much of a demand a supply of instances serves; more slices are better, then more requests.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Served {
    /// Memory slices of the requests served.
    pub slices: u64,
    /// Requests served.
    pub requests: u64,
}

/// What `supply` serves of `demand`, both instances by profile; each request takes an instance of its own profile.
#[must_use]
pub fn served(geometry: &Geometry, supply: &[u64], demand: &[u64]) -> Served {
    let profiles = geometry.model().profiles.iter();
    let mut served = Served::default();
    for (profile, (&supply, &demand)) in profiles.zip(supply.iter().zip(demand)) {
        let requests = supply.min(demand);
        served.requests += requests;
        served.slices += requests * u64::from(profile.memory_slices);
    }
    served
}

/// Instances by profile of a set of cards.
#[must_use]
pub fn supply(geometry: &Geometry, layouts: impl IntoIterator<Item = LayoutId>) -> Vec<u64> {
    let mut supply = vec![0; geometry.model().profiles.len()];
    for layout in layouts {
        for (sum, held) in supply.iter_mut().zip(geometry.counts(layout)) {
            *sum += u64::from(held);
        }
    }
    supply
}

/// Layouts for `cards` cards that serve as much of `demand` (requests by profile) as was found: each card in turn takes
/// the layout that serves most, by slices or by requests, then single cards and pairs are exchanged while that serves
/// more. Equal layouts stand together. For one and two cards a test finds nothing better.
#[must_use]
pub fn plan(geometry: &Geometry, cards: usize, demand: &[u64]) -> Vec<LayoutId> {
    let options = fullest(geometry);
    let search = |by_requests| {
        let mut search = Search::new(geometry, &options, demand);
        for _ in 0..cards {
            let next = search.best_addition(by_requests);
            search.shift(next, 1);
        }
        while search.improve() {}
        search
    };
    let (slices, requests) = (search(false), search(true));
    let best = if requests.value() > slices.value() { requests } else { slices };
    let repeated = options.iter().zip(&best.chosen);
    repeated.flat_map(|(&layout, &count)| std::iter::repeat_n(layout, count)).collect()
}

/// One layout for each set of instances to which nothing can be added.
fn fullest(geometry: &Geometry) -> Vec<LayoutId> {
    let mut sets: HashMap<Vec<u8>, LayoutId, MixBuild> = HashMap::default();
    for layout in geometry.layouts() {
        sets.entry(geometry.counts(layout)).or_insert(layout);
    }
    let dominated = |counts: &[u8]| {
        sets.keys().any(|other| other != counts && other.iter().zip(counts).all(|(o, c)| o >= c))
    };
    let mut layouts: Vec<LayoutId> =
        sets.iter().filter(|(counts, _)| !dominated(counts)).map(|(_, &layout)| layout).collect();
    layouts.sort_unstable();
    layouts
}

struct Search<'a> {
    geometry: &'a Geometry,
    demand: &'a [u64],
    held: Vec<Vec<u8>>,
    /// Cards by option.
    chosen: Vec<usize>,
    supply: Vec<u64>,
}

impl<'a> Search<'a> {
    fn new(geometry: &'a Geometry, options: &[LayoutId], demand: &'a [u64]) -> Search<'a> {
        let held: Vec<Vec<u8>> = options.iter().map(|&layout| geometry.counts(layout)).collect();
        let supply = vec![0; demand.len()];
        Search { geometry, demand, chosen: vec![0; held.len()], held, supply }
    }

    fn shift(&mut self, option: usize, by: isize) {
        self.chosen[option] = self.chosen[option].saturating_add_signed(by);
        for (supply, &held) in self.supply.iter_mut().zip(&self.held[option]) {
            *supply = supply.saturating_add_signed(by as i64 * i64::from(held));
        }
    }

    /// What is served; ties go to the demand that is left having more instances to wait for.
    fn value(&self) -> (Served, u64) {
        let instances = self.supply.iter().sum();
        (served(self.geometry, &self.supply, self.demand), instances)
    }

    fn with(&mut self, changes: &[(usize, isize)]) -> (Served, u64) {
        changes.iter().for_each(|&(option, by)| self.shift(option, by));
        let value = self.value();
        changes.iter().rev().for_each(|&(option, by)| self.shift(option, -by));
        value
    }

    fn best_addition(&mut self, by_requests: bool) -> usize {
        let mut best = 0;
        let mut most = None;
        for option in 0..self.held.len() {
            let (served, instances) = self.with(&[(option, 1)]);
            let first = if by_requests { served.requests } else { 0 };
            let value = (first, served, instances);
            if most.is_none_or(|most| value > most) {
                (best, most) = (option, Some(value));
            }
        }
        best
    }

    /// Exchanges one or two cards; false if no exchange serves more.
    fn improve(&mut self) -> bool {
        let now = self.value();
        let options = self.held.len();
        for from in (0..options).filter(|&from| self.chosen[from] > 0).collect::<Vec<_>>() {
            for to in 0..options {
                if self.with(&[(from, -1), (to, 1)]) > now {
                    self.shift(from, -1);
                    self.shift(to, 1);
                    return true;
                }
            }
        }
        for from in pairs(options).filter(|&pair| self.has(pair)).collect::<Vec<_>>() {
            for to in pairs(options) {
                let changes = [(from.0, -1), (from.1, -1), (to.0, 1), (to.1, 1)];
                if self.with(&changes) > now {
                    changes.iter().for_each(|&(option, by)| self.shift(option, by));
                    return true;
                }
            }
        }
        false
    }

    fn has(&self, (a, b): (usize, usize)) -> bool {
        if a == b { self.chosen[a] > 1 } else { self.chosen[a] > 0 && self.chosen[b] > 0 }
    }
}

fn pairs(below: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..below).flat_map(move |a| (a..below).map(move |b| (a, b)))
}
