//! Cards of one model, what runs on them, and where the next request goes.

use std::ops::Range;

use thiserror::Error;

use super::geometry::{Geometry, LayoutId, PlacementId};
use super::mix::ProfileMix;
use super::params::{MAX_CARDS, MAX_INSTANCES};
use super::profiles::{GpuModel, ProfileId};
use super::strategy::MigStrategy;
use super::valuation::Valuation;
use crate::error::Error;
use crate::hash::mix64;
use crate::units::NodeKey;

/// A card of a [`Fleet`]: its position in the fleet's order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CardId(pub u32);

/// One instance of a decision.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Chosen {
    /// The card.
    pub card: CardId,
    /// Profile and start.
    pub placement: PlacementId,
}

/// Nothing fits, and why.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{}", self.sentence())]
pub struct MigUnfit {
    /// What was asked for.
    pub profile: &'static str,
    /// How many on one node.
    pub count: u8,
    /// Memory slices of one instance.
    pub slices: u8,
    /// Most free memory slices on one card.
    pub most_free: u8,
    /// Most instances of the profile that one node could take.
    pub most_instances: u32,
}

impl MigUnfit {
    fn sentence(&self) -> String {
        let Self { profile, count, slices, most_free, most_instances } = self;
        if *most_instances > 0 {
            return format!(
                "{count} x {profile} do not fit on one node: at most {most_instances} do"
            );
        }
        let plural = if *most_free == 1 { "slice" } else { "slices" };
        if most_free >= slices {
            format!("{most_free} {plural} free, no legal start for {profile}")
        } else {
            format!(
                "{profile} needs {slices} slices, the emptiest card has {most_free} {plural} free"
            )
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Card {
    node: NodeKey,
    index: u8,
    layout: LayoutId,
}

/// Cards of one model, grouped by node. The order of nodes is a fixed permutation drawn by the seed.
///
/// Same cards, mix and seed give the same decision; threads are the caller's business.
#[derive(Clone, Debug)]
pub struct Fleet {
    geometry: Geometry,
    cards: Vec<Card>,
    nodes: Vec<Range<u32>>,
    valuation: Valuation,
    mix: ProfileMix,
    weights: Vec<u64>,
    /// Instances of each profile that all cards could still take, each alone.
    places: Vec<u64>,
    stale: bool,
}

impl Fleet {
    /// Empty cards of `model` on `nodes`, each with its number of cards.
    ///
    /// # Errors
    /// No card, a node named twice, or more than [`MAX_CARDS`].
    pub fn new(
        model: &'static GpuModel,
        nodes: &[(NodeKey, u8)],
        strategy: MigStrategy,
        seed: u64,
    ) -> Result<Fleet, Error> {
        let mut order = nodes.to_vec();
        order.sort_unstable_by_key(|&(key, _)| (mix64(seed ^ key.0), key));
        if let Some(twice) = order.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(Error::DuplicateNode { what: "the fleet".to_owned(), key: twice[0].0 });
        }
        let total: usize = order.iter().map(|&(_, cards)| usize::from(cards)).sum();
        if total == 0 {
            return Err(Error::invalid("the number of cards", 0, "expected at least one card"));
        }
        if total > MAX_CARDS {
            return Err(Error::limit("the number of cards", total as i128, MAX_CARDS as i128));
        }
        let geometry = Geometry::new(model);
        let mut cards = Vec::with_capacity(total);
        let mut ranges = Vec::with_capacity(order.len());
        for (node, count) in order {
            let from = cards.len() as u32;
            cards.extend((0..count).map(|index| Card { node, index, layout: LayoutId::EMPTY }));
            ranges.push(from..cards.len() as u32);
        }
        let valuation = Valuation::new(&geometry, strategy);
        let empty = valuation.rooms(LayoutId::EMPTY);
        let places = empty.iter().map(|&room| u64::from(room) * total as u64).collect();
        let mix = ProfileMix::new(model.profiles.len());
        let mut fleet = Fleet {
            geometry,
            cards,
            nodes: ranges,
            valuation,
            mix,
            weights: Vec::new(),
            places,
            stale: true,
        };
        fleet.relearn();
        Ok(fleet)
    }

    /// The layouts of the cards' model.
    #[must_use]
    pub const fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// What was learned of the requests.
    #[must_use]
    pub const fn mix(&self) -> &ProfileMix {
        &self.mix
    }

    /// All cards, in order.
    pub fn cards(&self) -> impl ExactSizeIterator<Item = CardId> + use<> {
        (0..self.cards.len() as u32).map(CardId)
    }

    /// Node of a card, and its index there.
    ///
    /// # Panics
    /// `card` is not of this fleet.
    #[must_use]
    pub fn location(&self, card: CardId) -> (NodeKey, u8) {
        let card = &self.cards[card.0 as usize];
        (card.node, card.index)
    }

    /// The card of a node.
    #[must_use]
    pub fn card_at(&self, node: NodeKey, index: u8) -> Option<CardId> {
        let found = self.cards.iter().position(|card| (card.node, card.index) == (node, index))?;
        Some(CardId(found as u32))
    }

    /// What runs on a card.
    ///
    /// # Panics
    /// `card` is not of this fleet.
    #[must_use]
    pub fn layout(&self, card: CardId) -> LayoutId {
        self.cards[card.0 as usize].layout
    }

    /// Slices expected to stay idle once nothing more fits, over all cards, in 2^-16 slices.
    #[must_use]
    pub fn stranded(&self) -> i64 {
        self.cards.iter().map(|card| self.valuation.stranded(card.layout)).sum()
    }

    /// Counts a request that arrived for the first time. A retry must not be counted again.
    ///
    /// # Errors
    /// The model does not have the profile, or a count of 0 or above [`MAX_INSTANCES`].
    pub fn observe(&mut self, profile: ProfileId, count: u8) -> Result<(), Error> {
        self.check(profile, count)?;
        if self.mix.observe(profile.index(), count) {
            self.relearn();
        }
        Ok(())
    }

    fn relearn(&mut self) {
        self.weights.clear();
        self.weights.extend(self.mix.weights());
        self.valuation.relearn(&self.geometry, &self.weights);
        self.stale = true;
    }

    fn check(&self, profile: ProfileId, count: u8) -> Result<(), Error> {
        let model = self.geometry.model();
        if profile.index() >= model.profiles.len() {
            let fix = format!("{} has {} profiles", model.name, model.profiles.len());
            return Err(Error::invalid("MIG profile", profile.0, fix));
        }
        if count == 0 || count > MAX_INSTANCES {
            let fix = format!("expected 1 to {MAX_INSTANCES}");
            return Err(Error::invalid("the number of MIG instances", count, fix));
        }
        Ok(())
    }

    /// Where `count` instances of `profile` should go, all on one node; written to `chosen` in the order of placing.
    /// Changes no card.
    ///
    /// # Errors
    /// The outer one is that of [`Fleet::observe`]; the inner one says why nothing fits.
    pub fn choose(
        &mut self,
        profile: ProfileId,
        count: u8,
        chosen: &mut Vec<Chosen>,
    ) -> Result<Result<(), MigUnfit>, Error> {
        self.check(profile, count)?;
        chosen.clear();
        if self.stale {
            self.valuation.reprice(&self.weights, &self.places, self.cards.len());
            self.stale = false;
        }
        let mut best: Option<i64> = None;
        for node in 0..self.nodes.len() {
            let start = chosen.len();
            let Some(cost) = self.choose_on(node, profile, count, chosen) else {
                chosen.truncate(start);
                continue;
            };
            if best.is_some_and(|best| best <= cost) {
                chosen.truncate(start);
            } else {
                best = Some(cost);
                chosen.drain(..start);
                if self.valuation.strategy() == MigStrategy::FirstFit {
                    break;
                }
            }
        }
        Ok(if best.is_some() { Ok(()) } else { Err(self.unfit(profile, count)) })
    }

    /// Appends the choice on one node, one instance after the other, and returns its cost.
    fn choose_on(
        &self,
        node: usize,
        profile: ProfileId,
        count: u8,
        chosen: &mut Vec<Chosen>,
    ) -> Option<i64> {
        let from = chosen.len();
        let mut total = 0;
        for _ in 0..count {
            let mut best: Option<(i64, Chosen)> = None;
            for card in self.nodes[node].clone() {
                let layout = self.layout_with(CardId(card), &chosen[from..]);
                for (placement, after) in self.geometry.fitting(layout, profile) {
                    let cost = self.valuation.cost(&self.geometry, layout, after);
                    if best.is_none_or(|(least, _)| cost < least) {
                        best = Some((cost, Chosen { card: CardId(card), placement }));
                    }
                }
            }
            let (cost, choice) = best?;
            total += cost;
            chosen.push(choice);
        }
        Some(total)
    }

    fn layout_with(&self, card: CardId, chosen: &[Chosen]) -> LayoutId {
        let on_card = chosen.iter().filter(|choice| choice.card == card);
        on_card.fold(self.layout(card), |layout, choice| {
            self.geometry.add(layout, choice.placement).unwrap_or(layout)
        })
    }

    fn unfit(&self, profile: ProfileId, count: u8) -> MigUnfit {
        let facts = &self.geometry.model().profiles[profile.index()];
        let room = |range: &Range<u32>| {
            let rooms = range.clone().map(|card| self.valuation.rooms(self.layout(CardId(card))));
            rooms.map(|rooms| u32::from(rooms[profile.index()])).sum::<u32>()
        };
        let free = |card: &Card| self.geometry.free_slices(card.layout);
        MigUnfit {
            profile: facts.name,
            count,
            slices: facts.memory_slices,
            most_free: self.cards.iter().map(free).max().unwrap_or(0),
            most_instances: self.nodes.iter().map(room).max().unwrap_or(0),
        }
    }

    /// Puts an instance on a card.
    ///
    /// # Errors
    /// No such card, or the placement is not legal there now.
    pub fn place(&mut self, card: CardId, placement: PlacementId) -> Result<(), Error> {
        let before = self.known(card)?;
        let Some(after) = self.geometry.add(before, placement) else {
            let fix = "expected a legal placement on free slices; ask for a choice again";
            return Err(Error::invalid("MIG placement", self.describe(placement), fix));
        };
        self.become_layout(card, before, after);
        Ok(())
    }

    /// Takes an instance off a card.
    ///
    /// # Errors
    /// No such card, or no such instance on it.
    pub fn release(&mut self, card: CardId, placement: PlacementId) -> Result<(), Error> {
        let before = self.known(card)?;
        let Some(after) = self.geometry.remove(before, placement) else {
            let fix = "expected an instance that is on the card";
            return Err(Error::invalid("MIG placement", self.describe(placement), fix));
        };
        self.become_layout(card, before, after);
        Ok(())
    }

    fn known(&self, card: CardId) -> Result<LayoutId, Error> {
        self.cards.get(card.0 as usize).map(|card| card.layout).ok_or_else(|| {
            Error::invalid("card", card.0, format!("the fleet has {} cards", self.cards.len()))
        })
    }

    fn describe(&self, placement: PlacementId) -> String {
        let Some(at) = self.geometry.placements().get(usize::from(placement.0)) else {
            return format!("number {}", placement.0);
        };
        let name = self.geometry.model().profiles[at.profile.index()].name;
        format!("{name} at slice {}", at.start)
    }

    fn become_layout(&mut self, card: CardId, before: LayoutId, after: LayoutId) {
        self.cards[card.0 as usize].layout = after;
        let rooms = self.valuation.rooms(before).iter().zip(self.valuation.rooms(after));
        for (places, (&before, &after)) in self.places.iter_mut().zip(rooms) {
            *places = *places + u64::from(after) - u64::from(before);
        }
        self.stale = true;
    }

    /// Cards with at least one instance.
    #[must_use]
    pub fn cards_used(&self) -> usize {
        self.cards.iter().filter(|card| card.layout != LayoutId::EMPTY).count()
    }
}
