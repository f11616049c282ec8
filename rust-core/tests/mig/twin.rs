//! Decisions against a twin that works on lists of intervals and keeps no table.

use std::collections::HashMap;

use mortise_core::mig::{Chosen, Fleet, MigStrategy, Placement, ProfileId};
use mortise_core::{NodeKey, hash::mix64};
use proptest::prelude::*;

use crate::h100;

type Rows = Vec<Placement>;

fn size(row: &Placement) -> u8 {
    h100().profiles[row.profile.index()].memory_slices
}

fn fits(rows: &Rows, new: Placement) -> bool {
    let apart =
        |row: &Placement| row.start + size(row) <= new.start || new.start + size(&new) <= row.start;
    let media = |row: &Placement| h100().profiles[row.profile.index()].media;
    rows.iter().all(apart) && !(media(&new) && rows.iter().any(media))
}

fn with(rows: &Rows, new: Placement) -> Rows {
    let mut rows = rows.clone();
    rows.push(new);
    rows.sort_unstable();
    rows
}

fn options(rows: &Rows, profile: ProfileId) -> Vec<Placement> {
    let starts = h100().profiles[profile.index()].starts.iter();
    starts.map(|&start| Placement { profile, start }).filter(|&new| fits(rows, new)).collect()
}

fn profiles() -> impl Iterator<Item = ProfileId> {
    (0..h100().profiles.len() as u8).map(ProfileId)
}

fn free(rows: &Rows) -> i64 {
    8 - rows.iter().map(|row| i64::from(size(row))).sum::<i64>()
}

/// Most instances of one profile, by taking or leaving each start.
fn room(rows: &Rows, profile: ProfileId) -> i64 {
    fn from(rows: &Rows, profile: ProfileId, starts: &[u8]) -> i64 {
        let Some((&start, rest)) = starts.split_first() else { return 0 };
        let new = Placement { profile, start };
        let without = from(rows, profile, rest);
        if !fits(rows, new) {
            return without;
        }
        without.max(1 + from(&with(rows, new), profile, rest))
    }
    from(rows, profile, h100().profiles[profile.index()].starts)
}

struct Twin {
    weights: Vec<i128>,
    stranded: HashMap<Rows, i128>,
    later: HashMap<(Rows, ProfileId), i64>,
}

impl Twin {
    /// W in 2^-16 slices.
    fn stranded(&mut self, rows: &Rows) -> i128 {
        if let Some(&known) = self.stranded.get(rows) {
            return known;
        }
        let (mut sum, mut total) = (0, 0);
        for profile in profiles() {
            let best = options(rows, profile).into_iter().map(|n| self.stranded(&with(rows, n)));
            if let Some(best) = best.min() {
                sum += self.weights[profile.index()] * best;
                total += self.weights[profile.index()];
            }
        }
        let value = if total > 0 { sum / total } else { i128::from(free(rows)) << 16 };
        self.stranded.insert(rows.clone(), value);
        value
    }

    /// U after the horizon, in 2^-16 slices.
    fn later(&mut self, rows: &Rows, profile: ProfileId) -> i64 {
        if let Some(&known) = self.later.get(&(rows.clone(), profile)) {
            return known;
        }
        let mut sum = 5 * self.now(rows, profile);
        for index in 0..rows.len() {
            let mut left = rows.clone();
            left.remove(index);
            sum += 2 * self.later(&left, profile);
        }
        let value = sum / (5 + 2 * rows.len() as i64);
        self.later.insert((rows.clone(), profile), value);
        value
    }

    fn now(&self, rows: &Rows, profile: ProfileId) -> i64 {
        (room(rows, profile) * i64::from(h100().profiles[profile.index()].memory_slices)) << 16
    }

    fn price(&self, cards: &[Rows], profile: ProfileId) -> i64 {
        let places: i64 = cards.iter().map(|rows| room(rows, profile)).sum();
        let scale = (9 * 65536 + cards.len() as u64 * 14 * 65536 / 100).isqrt() as i64;
        let ratio = (scale << 16) / (scale + (places << 8));
        let total: i128 = self.weights.iter().sum();
        let share = ((self.weights[profile.index()] << 16) / total) as i64;
        (((((share * ratio) >> 16) * ratio) >> 16) * ratio) >> 16
    }

    fn worth(&mut self, cards: &[Rows], rows: &Rows) -> i128 {
        let mut kept = 0;
        for profile in profiles() {
            let places = (3 * self.now(rows, profile) + 2 * self.later(rows, profile)) / 5;
            kept += i128::from(self.price(cards, profile)) * i128::from(places);
        }
        15 * kept - (self.stranded(rows) << 16)
    }
}

fn fragmentation(rows: &Rows) -> i128 {
    let mut sum = 0;
    for profile in profiles() {
        let facts = h100().profiles[profile.index()];
        if facts.media || i64::from(facts.memory_slices) > free(rows) {
            continue;
        }
        let starts = facts.starts.iter().map(|&start| Placement { profile, start });
        let blocked = starts.filter(|new| {
            rows.iter()
                .any(|row| row.start < new.start + size(new) && new.start < row.start + size(row))
        });
        sum += i128::from(facts.memory_slices) * blocked.count() as i128;
    }
    sum
}

/// Card and placement by writing out every candidate in the order of the fleet.
fn decide(
    strategy: MigStrategy,
    cards: &[Rows],
    weights: &[i128],
    profile: ProfileId,
) -> Option<(usize, Placement)> {
    let mut twin =
        Twin { weights: weights.to_vec(), stranded: HashMap::new(), later: HashMap::new() };
    let mut best: Option<(i128, usize, Placement)> = None;
    for (card, rows) in cards.iter().enumerate() {
        for new in options(rows, profile) {
            let after = with(rows, new);
            let cost = match strategy {
                MigStrategy::ExpectedStranding => {
                    twin.worth(cards, rows) - twin.worth(cards, &after)
                }
                MigStrategy::Mfi => fragmentation(&after) - fragmentation(rows),
                MigStrategy::BestFit => i128::from(free(rows)),
                MigStrategy::FirstFit => 0,
            };
            if best.is_none_or(|(least, ..)| cost < least) {
                best = Some((cost, card, new));
            }
        }
    }
    best.map(|(_, card, new)| (card, new))
}

/// Weights that the mix should have after these arrivals, at most 512 of them.
fn weights(counts: &[i128]) -> Vec<i128> {
    counts.iter().map(|count| (count + 1) << 16).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Arrivals and departures on four nodes of one card: the same decision as the twin's, each time.
    #[test]
    fn decisions_are_those_of_the_twin(
        steps in prop::collection::vec((0u8..9, any::<prop::sample::Index>()), 1..30),
        seed in any::<u64>(),
        strategy in prop::sample::select(MigStrategy::ALL.to_vec()),
    ) {
        let mut keys: Vec<NodeKey> = (0..4).map(NodeKey).collect();
        let nodes: Vec<(NodeKey, u8)> = keys.iter().map(|&key| (key, 1)).collect();
        keys.sort_by_key(|key| mix64(seed ^ key.0));
        let mut fleet = Fleet::new(h100(), &nodes, strategy, seed).expect("valid");
        let mut cards = vec![Rows::new(); 4];
        let mut running: Vec<Chosen> = Vec::new();
        let (mut counts, mut learned, mut arrivals) = (vec![0i128; 7], vec![0i128; 7], 0u64);
        for (what, which) in steps {
            if what >= 7 {
                if running.is_empty() { continue; }
                let gone = running.swap_remove(which.index(running.len()));
                fleet.release(gone.card, gone.placement).expect("it runs");
                let at = fleet.geometry().placement(gone.placement);
                cards[gone.card.0 as usize].retain(|row| *row != at);
                continue;
            }
            let profile = ProfileId(what);
            counts[profile.index()] += 1;
            arrivals += 1;
            if arrivals.is_power_of_two() { learned.clone_from(&counts); }
            fleet.observe(profile, 1).expect("valid");
            let mut chosen = Vec::new();
            let fits = fleet.choose(profile, 1, &mut chosen).expect("valid").is_ok();
            let expected = decide(strategy, &cards, &weights(&learned), profile);
            prop_assert_eq!(fits, expected.is_some());
            let Some((card, new)) = expected else { continue };
            let at = fleet.geometry().placement(chosen[0].placement);
            prop_assert_eq!((chosen[0].card.0 as usize, at), (card, new), "{}", strategy);
            prop_assert_eq!(fleet.location(chosen[0].card).0, keys[card]);
            fleet.place(chosen[0].card, chosen[0].placement).expect("it fits");
            cards[card] = with(&cards[card], new);
            running.push(chosen[0]);
        }
    }
}
