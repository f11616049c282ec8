//! Decisions on MIG instances: which node, card and start.

use std::cmp::Reverse;
use std::sync::Arc;

use super::Kernel;
use super::types::Candidates;
use crate::cluster::{Cluster, MigCensus, MigNode};
use crate::filter::{Reason, Unfit};
use crate::limits::{CARD_MILLI, MAX_GPUS_PER_NODE};
use crate::mig::{
    GPU_MODELS, Geometry, LayoutId, MAX_MIG_KINDS, MigInstance, MigInstances, MigKind, MigRequest,
    MigStrategy, PROFILE_NAME_COUNT, PROFILE_NAMES, ProfileId, ProfileMix, ProfileName, Valuation,
};
use crate::request::PodRequest;
use crate::score::{Placed, Selection, Strategy};
use crate::stranding::{cost_in_cards, params};

/// What is known of the cards of one model.
#[derive(Debug)]
struct Market {
    geometry: Arc<Geometry>,
    valuation: Valuation,
    /// By profile.
    weights: Vec<u64>,
    places: Vec<u64>,
    relearned: Option<u64>,
    census: Option<u64>,
}

/// The mix of profiles, learned from arrivals, and what it makes of each model's layouts.
#[derive(Debug)]
pub(super) struct MigScorer {
    strategy: MigStrategy,
    mix: ProfileMix,
    /// The mix as it was last learned, by name.
    weights: Vec<u64>,
    relearns: u64,
    markets: Vec<Option<Market>>,
}

impl MigScorer {
    pub(super) fn new(strategy: MigStrategy) -> Self {
        let mix = ProfileMix::new(PROFILE_NAME_COUNT);
        let weights = mix.weights().collect();
        let markets = GPU_MODELS.iter().map(|_| None).collect();
        Self { strategy, mix, weights, relearns: 0, markets }
    }

    pub(super) fn observe(&mut self, request: &MigRequest) {
        for kind in request.kinds() {
            if self.mix.observe(usize::from(kind.profile.0), kind.count) {
                self.adopt(self.mix.weights().collect());
            }
        }
    }

    fn adopt(&mut self, weights: Vec<u64>) {
        self.weights = weights;
        self.relearns += 1;
    }

    /// Brings mix and prices up to date with the cards that there are.
    pub(super) fn refresh(&mut self, cluster: &Cluster) {
        let census = cluster.census();
        for (model, market) in self.markets.iter_mut().enumerate() {
            let Some(geometry) = census.geometry(model) else { continue };
            let market = market.get_or_insert_with(|| Market {
                geometry: Arc::clone(geometry),
                valuation: Valuation::new(geometry, self.strategy),
                weights: Vec::new(),
                places: Vec::new(),
                relearned: None,
                census: None,
            });
            if market.relearned != Some(self.relearns) {
                market.relearned = Some(self.relearns);
                market.census = None;
                let profiles = 0..geometry.model().profiles.len() as u8;
                let names = profiles.map(|p| ProfileName::of(geometry.model(), ProfileId(p)));
                market.weights.clear();
                market.weights.extend(names.map(|name| self.weights[usize::from(name.0)]));
                market.valuation.relearn(geometry, &market.weights);
            }
            if market.census != Some(census.version) {
                market.census = Some(census.version);
                market.reprice(census.counts(model));
            }
        }
    }

    fn cost(&self, model: Option<usize>, before: LayoutId, after: LayoutId) -> i64 {
        let market = model.and_then(|model| self.markets[model].as_ref());
        market.map_or(0, |market| {
            let cost = market.valuation.cost(&market.geometry, before, after);
            match self.strategy {
                // From 2^-32 slices to 2^-35 cards, so that it compares with other models and with cards.
                MigStrategy::ExpectedStranding => {
                    cost * 8 / i64::from(market.geometry.model().memory_slices)
                }
                _ => cost,
            }
        })
    }

    /// Slices expected to stay idle once nothing more fits, in milli-GPU, over all cards.
    pub(super) fn stranded_milli(&self, cluster: &Cluster) -> u64 {
        let markets = self.markets.iter().enumerate();
        markets
            .filter_map(|(model, market)| Some((model, market.as_ref()?)))
            .map(|(model, market)| {
                let counts = cluster.census().counts(model).iter().zip(market.geometry.layouts());
                let slices: i64 = counts
                    .map(|(&n, layout)| i64::from(n) * market.valuation.stranded(layout))
                    .sum();
                let per_card = i64::from(market.geometry.model().memory_slices);
                (slices.max(0) * i64::from(CARD_MILLI) / per_card) as u64 >> params::PRICE_BITS
            })
            .sum()
    }

    /// The learned mix, by name: count of arrivals, then what was counted and what scores now.
    pub(super) fn export(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.mix.arrivals().to_le_bytes());
        let weights = self.mix.counted().iter().zip(&self.weights);
        let seen: Vec<_> =
            PROFILE_NAMES.iter().zip(weights).filter(|(_, (c, _))| **c > 0).collect();
        bytes.push(seen.len() as u8);
        for (name, (counted, weight)) in seen {
            bytes.push(name.len() as u8);
            bytes.extend(name.as_bytes());
            bytes.extend(counted.to_le_bytes());
            bytes.extend(weight.to_le_bytes());
        }
    }

    /// Replaces the mix by one that was read.
    pub(super) fn import(&mut self, learned: MigLearned) {
        let fresh = ProfileMix::new(PROFILE_NAME_COUNT);
        let mut weights: Vec<u64> = fresh.weights().collect();
        let mut counted = vec![0; PROFILE_NAME_COUNT];
        for (name, count, weight) in learned.profiles {
            counted[usize::from(name.0)] = count;
            weights[usize::from(name.0)] = weight;
        }
        self.mix = ProfileMix::restore(learned.arrivals, counted);
        self.adopt(weights);
    }
}

/// A learned mix of profiles as it was exported.
pub(super) struct MigLearned {
    pub(super) arrivals: u64,
    pub(super) profiles: Vec<(ProfileName, u64, u64)>,
}

impl Market {
    fn reprice(&mut self, counts: &[u32]) {
        self.places.clear();
        self.places.resize(self.weights.len(), 0);
        let mut cards = 0;
        for (&count, layout) in counts.iter().zip(self.geometry.layouts()) {
            if count == 0 {
                continue;
            }
            cards += count as usize;
            for (places, &room) in self.places.iter_mut().zip(self.valuation.rooms(layout)) {
                *places += u64::from(room) * u64::from(count);
            }
        }
        self.valuation.reprice(&self.weights, &self.places, cards);
    }
}

/// Chooses instances on a node one after the other, the largest profile first, each where it costs least: by the model of the card
/// and its layouts before and after. `None` if they do not all fit.
fn choose(
    census: &MigCensus,
    node: &MigNode,
    request: &MigRequest,
    cost: impl Fn(Option<usize>, LayoutId, LayoutId) -> i64,
) -> Option<(i64, MigInstances)> {
    let mut kinds = [MigKind::default(); MAX_MIG_KINDS];
    let mut count = 0;
    for kind in request.kinds() {
        kinds[count] = kind;
        count += 1;
    }
    kinds[..count].sort_unstable_by_key(|kind| (Reverse(slices(kind.profile)), *kind));
    let mut node = *node;
    let mut total = 0;
    let mut chosen = MigInstances::NONE;
    for kind in &kinds[..count] {
        for _ in 0..kind.count {
            let mut best: Option<(i64, MigInstance, LayoutId)> = None;
            for device in 0..MAX_GPUS_PER_NODE {
                let before = node.layouts[device];
                for (placement, after) in census.places(&node, device, kind.profile) {
                    let cost = cost(node.cards[device].model(), before, after);
                    if best.is_none_or(|(least, ..)| cost < least) {
                        let device = device as u8;
                        best = Some((cost, MigInstance { device, placement: placement.0 }, after));
                    }
                }
            }
            let (cost, instance, after) = best?;
            total += cost;
            node.layouts[usize::from(instance.device)] = after;
            chosen.push(instance);
        }
    }
    Some((total, chosen))
}

/// Most memory slices that a profile of this name has on any model.
fn slices(profile: ProfileName) -> u8 {
    let on = |(index, model): (usize, &crate::mig::GpuModel)| {
        Some(model.profiles[profile.on(index)?.index()].memory_slices)
    };
    GPU_MODELS.iter().enumerate().filter_map(on).max().unwrap_or(0)
}

/// Why the MIG part of a request does not fit a node: the first profile that has no room.
pub(crate) fn unfit(census: &MigCensus, node: Option<&MigNode>, request: &MigRequest) -> Unfit {
    let unfit = |reason, need: i64, have: i64| Unfit { reason, need, have, largest_free: 0 };
    let mut least = unfit(Reason::InsufficientMigInstances, request.total() as i64, 0);
    let Some(node) = node else {
        return unfit(Reason::NoMigProfile, request.total() as i64, 0);
    };
    for kind in request.kinds() {
        let (mut offered, mut most_free, mut size, mut room) = (false, 0, 0, 0);
        for (card, layout) in node.cards.iter().zip(node.layouts) {
            let Some((geometry, profile)) =
                card.model().and_then(|m| Some((census.geometry(m)?, kind.profile.on(m)?)))
            else {
                continue;
            };
            if geometry.placements_of(profile).all(|place| card.offered() >> place.0 & 1 == 0) {
                continue;
            }
            offered = true;
            size = i64::from(geometry.model().profiles[profile.index()].memory_slices);
            most_free = most_free.max(i64::from(geometry.free_slices(layout)));
            let mut layout = layout;
            for place in geometry.placements_of(profile) {
                let free = card.offered() >> place.0 & 1 == 1;
                if let Some(after) = geometry.add(layout, place).filter(|_| free) {
                    layout = after;
                    room += 1;
                }
            }
        }
        if !offered {
            return unfit(Reason::NoMigProfile, i64::from(kind.count), 0);
        }
        if room == 0 && most_free >= size {
            return unfit(Reason::NoLegalMigStart, size, most_free);
        }
        if room == 0 {
            return unfit(Reason::InsufficientMigSlices, size, most_free);
        }
        if room < i64::from(kind.count) {
            return unfit(Reason::InsufficientMigInstances, i64::from(kind.count), room);
        }
        least.have += i64::from(kind.count);
    }
    least.have = (least.have - 1).max(0);
    least
}

/// As [`filter::check`](crate::filter::check), of the MIG part alone.
pub(crate) fn check_mig(cluster: &Cluster, slot: usize, pod: &PodRequest) -> Result<(), Unfit> {
    if pod.mig.is_none() {
        return Ok(());
    }
    let node = cluster.mig_for(slot, pod.uid, pod.priority);
    let census = cluster.census();
    let fits = node.as_ref().and_then(|node| choose(census, node, &pod.mig, |_, _, _| 0));
    fits.map(|_| ()).ok_or_else(|| unfit(cluster.census(), node.as_ref(), &pod.mig))
}

impl Kernel {
    /// Cost and instances of a MIG pod on a slot, whose base cost is that of the pod without MIG.
    pub(super) fn place_mig(
        &self,
        pod: &PodRequest,
        slot: usize,
        base: Result<Placed, Reason>,
    ) -> Result<(i64, MigInstances), Reason> {
        let base = base?;
        let node = self.cluster.mig_for(slot, pod.uid, pod.priority);
        let census = self.cluster.census();
        let cost = |model, before, after| self.mig.cost(model, before, after);
        let placed = node.as_ref().and_then(|node| choose(census, node, &pod.mig, cost));
        let Some((cost, chosen)) = placed else {
            return Err(unfit(census, node.as_ref(), &pod.mig).reason);
        };
        // Both are of one unit only where both expect stranding.
        let comparable = self.mig.strategy == MigStrategy::ExpectedStranding
            && self.config.strategy == Strategy::ExpectedStranding;
        Ok((if comparable { cost + cost_in_cards(base.cost) } else { cost }, chosen))
    }

    /// Offers every candidate that takes the MIG pod.
    pub(super) fn scan_mig(
        &mut self,
        pod: &PodRequest,
        base: &PodRequest,
        candidates: Candidates<'_>,
        selection: &mut Selection,
    ) {
        let mut costs = std::mem::take(&mut self.scratch.mig_costs);
        costs.clear();
        if let Candidates::All = candidates {
            self.scratch.candidates.extend(self.cluster.nodes().map(|node| node.index));
        }
        for &slot in &self.scratch.candidates {
            let placed = self.place_mig(pod, slot as usize, self.placed(base, slot));
            if let Ok((cost, _)) = placed {
                selection.offer(&self.cluster, slot as usize, cost);
            }
            costs.push(placed.map(|(cost, _)| cost));
        }
        self.scratch.mig_costs = costs;
    }
}
