//! Cards in MIG mode: which places for instances they offer, and what the pods of the node leave of them.
//!
//! A place is free while none of its slices is in use. Where the instances exist already, the places of a card do not
//! overlap and are all there is; where they are made when asked for, every legal place is offered.
//!
//! Known instances are put on their cards first, in uid order. Then, in uid order, each instance of which only the profile
//! is known takes a free place of it: the last of the card of the highest index that has one. What finds no place is
//! counted as overcommitted.

use std::sync::Arc;

use super::pod::PodRecord;
use super::{Cluster, NodeDelta};
use crate::error::Error;
use crate::limits::MAX_GPUS_PER_NODE;
use crate::mig::{
    GPU_MODELS, Geometry, LayoutId, MigInstance, MigKind, MigRequest, PlacementId, PlacementSet,
    ProfileName,
};
use crate::units::{PodUid, Priority};

/// What a card offers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct MigCard {
    /// 1 + index in [`GPU_MODELS`]; 0 if the card is not in MIG mode.
    model: u8,
    /// Places for instances.
    offered: PlacementSet,
}

/// By device.
pub type MigCards = [MigCard; MAX_GPUS_PER_NODE];

impl MigCard {
    /// Not in MIG mode.
    pub const NONE: Self = Self { model: 0, offered: 0 };

    /// A card of `GPU_MODELS[model]` with these places.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] for a model or place that is not in the table.
    pub fn new(model: usize, offered: PlacementSet) -> Result<Self, Error> {
        let Some(facts) = GPU_MODELS.get(model) else {
            let fix = format!("there are {} models with MIG", GPU_MODELS.len());
            return Err(Error::invalid("MIG model", model, fix));
        };
        let places: usize = facts.profiles.iter().map(|profile| profile.starts.len()).sum();
        if u64::from(offered) >> places != 0 {
            let fix = format!("{} has {places} places", facts.name);
            return Err(Error::invalid("MIG places", format!("{offered:#x}"), fix));
        }
        Ok(Self { model: model as u8 + 1, offered })
    }

    /// Index in [`GPU_MODELS`]; `None` if it is not in MIG mode.
    #[inline]
    #[must_use]
    pub const fn model(self) -> Option<usize> {
        if self.model == 0 { None } else { Some(self.model as usize - 1) }
    }

    /// Its places.
    #[must_use]
    pub const fn offered(self) -> PlacementSet {
        self.offered
    }
}

/// The MIG cards of a node and what is on them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MigNode {
    /// What the cards offer.
    pub cards: MigCards,
    /// What is in use, by device.
    pub layouts: [LayoutId; MAX_GPUS_PER_NODE],
    /// Instances that pods hold and for which there is no place.
    pub overcommitted: u16,
}

/// The layouts of each model that a card was seen of, and how many cards have which.
#[derive(Clone, Debug, Default)]
pub(crate) struct MigCensus {
    geometries: Vec<Option<Arc<Geometry>>>,
    /// Cards by layout.
    counts: Vec<Vec<u32>>,
    /// Changes with every change of `counts`.
    pub(crate) version: u64,
}

impl MigCensus {
    /// The layouts of a model, once a card of it was seen.
    #[inline]
    pub(crate) fn geometry(&self, model: usize) -> Option<&Arc<Geometry>> {
        self.geometries.get(model)?.as_ref()
    }

    /// Cards by layout; empty for a model that was never seen.
    pub(crate) fn counts(&self, model: usize) -> &[u32] {
        self.counts.get(model).map_or(&[], Vec::as_slice)
    }

    fn learn(&mut self, cards: &MigCards) {
        for model in cards.iter().filter_map(|card| card.model()) {
            if self.geometry(model).is_some() {
                continue;
            }
            self.geometries.resize(GPU_MODELS.len(), None);
            self.counts.resize(GPU_MODELS.len(), Vec::new());
            let geometry = Geometry::new(&GPU_MODELS[model]);
            self.counts[model] = vec![0; geometry.layout_count()];
            self.geometries[model] = Some(Arc::new(geometry));
        }
    }

    fn shift(&mut self, node: &MigNode, by: i32) {
        for (card, layout) in node.cards.iter().zip(node.layouts) {
            if let Some(model) = card.model() {
                let count = &mut self.counts[model][layout.index()];
                *count = count.wrapping_add_signed(by);
            }
        }
        self.version += 1;
    }

    /// What pods in uid order leave; `None` without cards in MIG mode.
    fn derive<'a>(
        &self,
        cards: &MigCards,
        pods: impl Iterator<Item = &'a PodRecord> + Clone,
    ) -> Option<MigNode> {
        if cards.iter().all(|card| card.model().is_none()) {
            return None;
        }
        let layouts = [LayoutId::EMPTY; MAX_GPUS_PER_NODE];
        let mut node = MigNode { cards: *cards, layouts, overcommitted: 0 };
        let holders = pods.filter(|pod| !pod.mig.is_none());
        for held in holders.clone().flat_map(|pod| pod.mig.known.as_slice()) {
            let taken = self.take(&mut node, *held);
            node.overcommitted += u16::from(!taken);
        }
        for kind in holders.flat_map(|pod| pod.mig.unknown.kinds()) {
            for _ in 0..kind.count {
                let place = self.last_place(&node, kind.profile);
                let taken = place.is_some_and(|place| self.take(&mut node, place));
                node.overcommitted += u16::from(!taken);
            }
        }
        Some(node)
    }

    fn take(&self, node: &mut MigNode, held: MigInstance) -> bool {
        let device = usize::from(held.device);
        let Some(geometry) = node.cards[device].model().and_then(|model| self.geometry(model))
        else {
            return false;
        };
        let after = geometry.add(node.layouts[device], PlacementId(held.placement));
        node.layouts[device] = after.unwrap_or(node.layouts[device]);
        after.is_some()
    }

    fn last_place(&self, node: &MigNode, profile: ProfileName) -> Option<MigInstance> {
        (0..MAX_GPUS_PER_NODE).rev().find_map(|device| {
            let (placement, _) = self.places(node, device, profile).last()?;
            Some(MigInstance { device: device as u8, placement: placement.0 })
        })
    }

    /// Free places of a profile on a device, lowest start first, each with the layout after it is taken.
    #[inline]
    pub(crate) fn places<'a>(
        &'a self,
        node: &'a MigNode,
        device: usize,
        profile: ProfileName,
    ) -> impl Iterator<Item = (PlacementId, LayoutId)> + 'a {
        let card = node.cards[device];
        let on = card.model().and_then(|model| Some((self.geometry(model)?, profile.on(model)?)));
        on.into_iter().flat_map(move |(geometry, profile)| {
            geometry
                .fitting(node.layouts[device], profile)
                .filter(move |(placement, _)| card.offered() >> placement.0 & 1 == 1)
        })
    }
}

impl Cluster {
    /// The MIG cards of a slot with every reservation held; `None` if it has none.
    #[inline]
    #[must_use]
    pub fn mig(&self, slot: usize) -> Option<&MigNode> {
        self.mig[slot].as_deref()
    }

    /// The MIG cards of a slot as one pod sees them: without reservations that yield to it.
    #[must_use]
    pub fn mig_for(&self, slot: usize, uid: PodUid, priority: Priority) -> Option<MigNode> {
        let node = self.mig(slot)?;
        if !self.yields_to(slot, uid, priority) {
            return Some(*node);
        }
        let held = self.pods[slot].iter().filter(|pod| pod.holds_against(uid, priority));
        self.census.derive(&node.cards, held)
    }

    /// What a pod of a slot asked for, by what it holds.
    pub(crate) fn asked_mig(&self, slot: usize, pod: &PodRecord) -> MigRequest {
        let known = pod.mig.known.as_slice().iter().filter_map(|held| {
            let model = self.mig(slot)?.cards[usize::from(held.device)].model()?;
            let placement = self.census.geometry(model)?.placement(PlacementId(held.placement));
            let profile = ProfileName::of(&GPU_MODELS[model], placement.profile);
            Some(MigKind { profile, count: 1 })
        });
        let kinds: Vec<MigKind> = known.chain(pod.mig.unknown.kinds()).collect();
        MigRequest::new(&kinds).unwrap_or_default()
    }

    /// Memory slices of all cards in MIG mode, and those in use.
    #[must_use]
    pub fn mig_slices(&self) -> (u64, u64) {
        let mut slices = (0, 0);
        for model in 0..GPU_MODELS.len() {
            let Some(geometry) = self.census.geometry(model) else { continue };
            for (&cards, layout) in self.census.counts(model).iter().zip(geometry.layouts()) {
                let used = u64::from(geometry.used(layout).count_ones());
                slices.0 += u64::from(cards) * u64::from(geometry.model().memory_slices);
                slices.1 += u64::from(cards) * used;
            }
        }
        slices
    }

    pub(crate) fn census(&self) -> &MigCensus {
        &self.census
    }

    /// Stores what the MIG cards of a slot offer and the slot's pods leave; true if that is a difference.
    pub(super) fn write_mig(&mut self, slot: u32, cards: &MigCards) -> bool {
        let index = slot as usize;
        self.census.learn(cards);
        let after = self.census.derive(cards, self.pods[index].iter());
        if after.as_ref() == self.mig(index) {
            return false;
        }
        if let Some(before) = &self.mig[index] {
            self.census.shift(before, -1);
        }
        if let Some(after) = &after {
            self.census.shift(after, 1);
        }
        match (&mut self.mig[index], after) {
            (Some(kept), Some(after)) => **kept = after,
            (node, after) => *node = after.map(Box::new),
        }
        true
    }

    pub(super) fn check_mig(&self, slot: usize) -> bool {
        let cards = self.mig(slot).map_or(&[MigCard::NONE; MAX_GPUS_PER_NODE], |node| &node.cards);
        self.census.derive(cards, self.pods[slot].iter()).as_ref() == self.mig(slot)
    }

    /// Cards by model and layout, counted anew.
    pub(super) fn check_census(&self) -> bool {
        let mut fresh = MigCensus {
            counts: self.census.counts.iter().map(|counts| vec![0; counts.len()]).collect(),
            ..MigCensus::default()
        };
        (0..self.slots()).filter_map(|slot| self.mig(slot)).for_each(|node| fresh.shift(node, 1));
        fresh.counts == self.census.counts
    }
}

impl NodeDelta {
    pub(super) fn validate_mig(&self, what: impl Fn(&str) -> String) -> Result<(), Error> {
        for (device, card) in self.mig.iter().enumerate() {
            let Some(model) = card.model() else { continue };
            let field = || what(&format!("mig[{device}]"));
            if device >= usize::from(self.gpu_count) {
                let fix = format!("the node has {} devices; leave the rest out", self.gpu_count);
                return Err(Error::invalid(field(), GPU_MODELS[model].name, fix));
            }
            if self.capacity[device].get() != 0 {
                return Err(Error::invalid(
                    field(),
                    GPU_MODELS[model].name,
                    "a card in MIG mode has a capacity of 0: it is neither whole nor shared",
                ));
            }
        }
        Ok(())
    }
}

impl PodRecord {
    pub(super) fn validate_mig(&self, cards: &MigCards) -> Result<(), Error> {
        for held in self.mig.known.as_slice() {
            let card = cards.get(usize::from(held.device)).copied().unwrap_or_default();
            let what = || format!("MIG instance on device {}", held.device);
            let Some(model) = card.model() else {
                let fix = "the device is not a card in MIG mode; count it as unknown";
                return Err(Error::invalid(what(), format!("place {}", held.placement), fix));
            };
            let facts = &GPU_MODELS[model];
            let places: usize = facts.profiles.iter().map(|profile| profile.starts.len()).sum();
            if usize::from(held.placement) >= places {
                let fix = format!("{} has {places} places", facts.name);
                return Err(Error::invalid(what(), format!("place {}", held.placement), fix));
            }
        }
        Ok(())
    }
}
