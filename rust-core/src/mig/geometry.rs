//! Every layout that a card of one model can have, and the steps between them.

use std::collections::HashMap;

use super::profiles::{GpuModel, Profile, ProfileId};
use crate::hash::MixBuild;

/// One instance of a profile at a start.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Placement {
    /// The profile.
    pub profile: ProfileId,
    /// First memory slice.
    pub start: u8,
}

/// Index of a [`Placement`] in [`Geometry::placements`]; also its bit in a [`PlacementSet`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PlacementId(pub u8);

/// The instances of one card, as a bit set over placements.
pub type PlacementSet = u32;

/// Index of a legal layout; [`LayoutId::EMPTY`] is the card without instances.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LayoutId(pub u16);

impl LayoutId {
    /// No instance.
    pub const EMPTY: LayoutId = LayoutId(0);
    const NONE: LayoutId = LayoutId(u16::MAX);

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Bit set of memory slices.
pub type SliceMask = u8;

/// The layouts of one GPU model. A layout is legal if no two instances overlap, its compute slices and the instances of
/// each profile stay within the card's, and at most one instance has the media engines.
#[derive(Clone, Debug)]
pub struct Geometry {
    model: &'static GpuModel,
    placements: Vec<Placement>,
    layouts: Vec<PlacementSet>,
    /// Slices in use, by layout.
    used: Vec<SliceMask>,
    /// [layout * placements + placement]: the layout after adding, or after removing, that placement.
    step: Vec<LayoutId>,
    /// Range of each profile in `placements`.
    ranges: Vec<std::ops::Range<u8>>,
}

impl Geometry {
    /// All layouts of `model`, fewer instances first.
    #[must_use]
    pub fn new(model: &'static GpuModel) -> Geometry {
        let (placements, ranges) = placements(model);
        let mut geometry = Geometry {
            model,
            placements,
            layouts: vec![0],
            used: vec![0],
            step: Vec::new(),
            ranges,
        };
        let mut known: HashMap<PlacementSet, LayoutId, MixBuild> = HashMap::default();
        known.insert(0, LayoutId::EMPTY);
        let mut next = 0;
        while next < geometry.layouts.len() {
            geometry.grow(next, &mut known);
            next += 1;
        }
        geometry.step = vec![LayoutId::NONE; geometry.layouts.len() * geometry.placements.len()];
        for (layout, &set) in geometry.layouts.iter().enumerate() {
            for bit in 0..geometry.placements.len() {
                if let Some(&to) = known.get(&(set ^ (1 << bit))) {
                    geometry.step[layout * geometry.placements.len() + bit] = to;
                }
            }
        }
        geometry
    }

    fn grow(&mut self, from: usize, known: &mut HashMap<PlacementSet, LayoutId, MixBuild>) {
        for bit in 0..self.placements.len() {
            let set = self.layouts[from] | 1 << bit;
            if known.contains_key(&set) || !self.is_legal(set) {
                continue;
            }
            known.insert(set, LayoutId(self.layouts.len() as u16));
            self.layouts.push(set);
            self.used.push(self.used[from] | self.slices(PlacementId(bit as u8)));
        }
    }

    /// The rule itself, on any set of placements.
    #[must_use]
    pub fn is_legal(&self, set: PlacementSet) -> bool {
        let mut used = 0;
        let mut compute = 0;
        let mut media = 0;
        for id in self.ids().filter(|id| set >> id.0 & 1 == 1) {
            let profile = self.profile_at(id);
            if used & self.slices(id) != 0 {
                return false;
            }
            used |= self.slices(id);
            compute += profile.compute_slices;
            media += u8::from(profile.media);
        }
        let within = |(index, range): (usize, &std::ops::Range<u8>)| {
            let bits = ((1u64 << range.end) - (1u64 << range.start)) as PlacementSet;
            (set & bits).count_ones() <= u32::from(self.model.profiles[index].max_instances)
        };
        compute <= self.model.compute_slices
            && media <= 1
            && self.ranges.iter().enumerate().all(within)
    }

    /// The model.
    #[must_use]
    pub const fn model(&self) -> &'static GpuModel {
        self.model
    }

    /// Number of legal layouts.
    #[must_use]
    pub fn layout_count(&self) -> usize {
        self.layouts.len()
    }

    /// All legal layouts, fewer instances first.
    pub fn layouts(&self) -> impl ExactSizeIterator<Item = LayoutId> + DoubleEndedIterator + use<> {
        (0..self.layouts.len() as u16).map(LayoutId)
    }

    /// All placements, by profile, then start.
    #[must_use]
    pub fn placements(&self) -> &[Placement] {
        &self.placements
    }

    /// What `id` stands for.
    #[must_use]
    pub fn placement(&self, id: PlacementId) -> Placement {
        self.placements[id.0 as usize]
    }

    /// The placement of `profile` at `start`, if it may start there.
    #[must_use]
    pub fn placement_at(&self, profile: ProfileId, start: u8) -> Option<PlacementId> {
        self.placements_of(profile).find(|&id| self.placement(id).start == start)
    }

    /// The placements of one profile, lowest start first; none for a profile the model does not have.
    pub fn placements_of(
        &self,
        profile: ProfileId,
    ) -> impl DoubleEndedIterator<Item = PlacementId> + use<> {
        self.ranges.get(profile.index()).cloned().unwrap_or(0..0).map(PlacementId)
    }

    pub(super) fn ids(&self) -> impl DoubleEndedIterator<Item = PlacementId> + use<> {
        (0..self.placements.len() as u8).map(PlacementId)
    }

    /// Memory slices in use.
    #[must_use]
    pub fn used(&self, layout: LayoutId) -> SliceMask {
        self.used[layout.index()]
    }

    /// Memory slices not in use.
    #[must_use]
    pub fn free_slices(&self, layout: LayoutId) -> u8 {
        self.model.memory_slices - self.used(layout).count_ones() as u8
    }

    /// Instances of a layout.
    pub fn instances(&self, layout: LayoutId) -> impl Iterator<Item = PlacementId> + use<> {
        let set = self.layouts[layout.index()];
        (0..PlacementSet::BITS as u8).filter(move |bit| set >> bit & 1 == 1).map(PlacementId)
    }

    /// The layout with one more instance; `None` if it would not be legal or the instance is there already.
    #[must_use]
    pub fn add(&self, layout: LayoutId, placement: PlacementId) -> Option<LayoutId> {
        self.step(layout, placement)
            .filter(|_| self.layouts[layout.index()] >> placement.0 & 1 == 0)
    }

    /// The layout without that instance; `None` if it is not there.
    #[must_use]
    pub fn remove(&self, layout: LayoutId, placement: PlacementId) -> Option<LayoutId> {
        self.step(layout, placement)
            .filter(|_| self.layouts[layout.index()] >> placement.0 & 1 == 1)
    }

    fn step(&self, layout: LayoutId, placement: PlacementId) -> Option<LayoutId> {
        let width = self.placements.len();
        if usize::from(placement.0) >= width || layout.index() >= self.layouts.len() {
            return None;
        }
        let to = self.step[layout.index() * width + usize::from(placement.0)];
        (to != LayoutId::NONE).then_some(to)
    }

    /// Where an instance of `profile` could be added, lowest start first.
    pub fn fitting(
        &self,
        layout: LayoutId,
        profile: ProfileId,
    ) -> impl Iterator<Item = (PlacementId, LayoutId)> + '_ {
        self.placements_of(profile).filter_map(move |id| Some((id, self.add(layout, id)?)))
    }

    /// Most instances of `profile` that could be added, all of that profile.
    #[must_use]
    pub fn room(&self, layout: LayoutId, profile: ProfileId) -> u8 {
        // Starts of one profile are a multiple of its size apart or one slice wide: the lowest first is optimal.
        let mut layout = layout;
        let mut count = 0;
        for id in self.placements_of(profile) {
            if let Some(after) = self.add(layout, id) {
                layout = after;
                count += 1;
            }
        }
        count
    }

    /// The slices of a placement.
    #[must_use]
    pub fn slices(&self, id: PlacementId) -> SliceMask {
        let size = self.profile_at(id).memory_slices;
        (((1u16 << size) - 1) << self.placement(id).start) as SliceMask
    }

    pub(super) fn profile_at(&self, id: PlacementId) -> &'static Profile {
        &self.model.profiles[self.placement(id).profile.index()]
    }

    /// Instances by profile, in the order of [`GpuModel::profiles`].
    #[must_use]
    pub fn counts(&self, layout: LayoutId) -> Vec<u8> {
        let mut counts = vec![0; self.model.profiles.len()];
        for id in self.instances(layout) {
            counts[self.placement(id).profile.index()] += 1;
        }
        counts
    }
}

fn placements(model: &GpuModel) -> (Vec<Placement>, Vec<std::ops::Range<u8>>) {
    let mut placements = Vec::new();
    let mut ranges = Vec::new();
    for (index, profile) in model.profiles.iter().enumerate() {
        let from = placements.len() as u8;
        let at = |&start: &u8| Placement { profile: ProfileId(index as u8), start };
        placements.extend(profile.starts.iter().map(at));
        ranges.push(from..placements.len() as u8);
    }
    (placements, ranges)
}
