//! The workload mix: which kinds of pod arrive, and how often.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use super::params::{
    ARRIVAL_WEIGHT, DECAY_SHIFT, FORGET_WEIGHT, MAX_COUNTED_KINDS, MAX_MIX_WEIGHT,
    MAX_REMEMBERED_UIDS, RELEARN_DOUBLING_UNTIL, RELEARN_EVERY_ARRIVALS,
};
use crate::hash::MixBuild;
use crate::limits::MAX_MIX_KINDS;
use crate::request::Kind;
use crate::units::PodUid;

/// Where the workload mix comes from.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum MixMode {
    /// Learned from the arrivals.
    #[default]
    Learned,
    /// Known in advance: kinds with their counts. The same kind may be named more than once.
    Fixed(Vec<(Kind, u64)>),
}

/// One kind of a mix and its weight, at least 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WeightedKind {
    /// The kind.
    pub kind: Kind,
    /// Its share of the mix is `weight / Mix::total`.
    pub weight: u64,
}

/// Kinds by falling weight, at most [`MAX_MIX_KINDS`], with a total of at most 2^32 + 512.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Mix {
    kinds: Vec<WeightedKind>,
    total: u64,
}

impl Mix {
    /// The commonest kinds of `counts` until they cover `coverage_permille` of the counts. Order: falling count, then
    /// the larger kind (CPU, milli per card, cards, models). Counts of equal kinds add up; zero counts are left out.
    #[must_use]
    pub fn commonest(
        counts: impl IntoIterator<Item = (Kind, u64)>,
        coverage_permille: u64,
    ) -> Self {
        let mut summed: HashMap<Kind, u64, MixBuild> = HashMap::default();
        for (kind, count) in counts {
            let entry = summed.entry(kind).or_insert(0);
            *entry = entry.saturating_add(count);
        }
        let mut order: Vec<(Kind, u64)> =
            summed.into_iter().filter(|&(_, count)| count > 0).collect();
        order.sort_unstable_by_key(|&(kind, count)| Reverse((count, size_order(&kind))));
        let all: u128 = order.iter().map(|&(_, count)| u128::from(count)).sum();
        let mut covered = 0u128;
        let mut keep = 0;
        while keep < order.len().min(MAX_MIX_KINDS)
            && covered * 1000 < all * u128::from(coverage_permille)
        {
            covered += u128::from(order[keep].1);
            keep += 1;
        }
        let mut shift = 0;
        while covered >> shift > u128::from(MAX_MIX_WEIGHT) {
            shift += 1;
        }
        let kinds: Vec<WeightedKind> = order[..keep]
            .iter()
            .map(|&(kind, count)| WeightedKind { kind, weight: (count >> shift).max(1) })
            .collect();
        Self::from_parts(kinds)
    }

    pub(super) fn from_parts(kinds: Vec<WeightedKind>) -> Self {
        let total = kinds.iter().map(|kind| kind.weight).sum();
        Self { kinds, total }
    }

    /// The kinds, commonest first.
    #[must_use]
    pub fn kinds(&self) -> &[WeightedKind] {
        &self.kinds
    }

    /// Sum of the weights; 0 for an empty mix.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// Nothing is known yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }
}

/// Total order of kinds by size.
fn size_order(kind: &Kind) -> (i64, u16, u8, u64) {
    (kind.cpu.0, kind.gpu.milli().get(), kind.gpu.count(), kind.models.0)
}

/// Counts arrivals by kind. A pod counts once for as long as its UID is among the last [`MAX_REMEMBERED_UIDS`] counted.
#[derive(Clone, Debug, Default)]
pub(super) struct Arrivals {
    pub(super) counted: u64,
    pub(super) weights: HashMap<Kind, u64, MixBuild>,
    pub(super) uids: UidRing,
}

/// What an arrival led to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Observed {
    /// The pod was counted before.
    Seen,
    /// Counted.
    Counted,
    /// Counted, and it is time to learn the mix anew.
    RelearnDue,
}

impl Arrivals {
    /// Pods counted so far.
    #[must_use]
    pub(super) const fn counted(&self) -> u64 {
        self.counted
    }

    pub(super) fn observe(&mut self, uid: PodUid, kind: Kind) -> Observed {
        if !self.uids.insert(uid) {
            return Observed::Seen;
        }
        self.counted += 1;
        self.count(kind);
        if self.counted > RELEARN_DOUBLING_UNTIL
            && self.counted.is_multiple_of(RELEARN_EVERY_ARRIVALS)
        {
            self.decay();
        }
        if relearn_due(self.counted) { Observed::RelearnDue } else { Observed::Counted }
    }

    fn count(&mut self, kind: Kind) {
        if let Some(weight) = self.weights.get_mut(&kind) {
            *weight += ARRIVAL_WEIGHT;
            return;
        }
        if self.weights.len() >= MAX_COUNTED_KINDS {
            let lightest = self.weights.iter().map(|(kind, &w)| (w, size_order(kind), *kind)).min();
            if let Some((_, _, lightest)) = lightest {
                self.weights.remove(&lightest);
            }
        }
        self.weights.insert(kind, ARRIVAL_WEIGHT);
    }

    fn decay(&mut self) {
        self.weights.retain(|_, weight| {
            *weight -= *weight >> DECAY_SHIFT;
            *weight >= FORGET_WEIGHT
        });
    }

    pub(super) fn learn(&self, coverage_permille: u64) -> Mix {
        Mix::commonest(
            self.weights.iter().map(|(&kind, &weight)| (kind, weight)),
            coverage_permille,
        )
    }
}

fn relearn_due(counted: u64) -> bool {
    if counted <= RELEARN_DOUBLING_UNTIL {
        counted.is_power_of_two()
    } else {
        counted.is_multiple_of(RELEARN_EVERY_ARRIVALS)
    }
}

/// The last [`MAX_REMEMBERED_UIDS`] distinct UIDs.
#[derive(Clone, Debug, Default)]
pub(super) struct UidRing {
    ring: Vec<PodUid>,
    oldest: usize,
    known: HashSet<PodUid, MixBuild>,
}

impl UidRing {
    /// False if it is known already.
    pub(super) fn insert(&mut self, uid: PodUid) -> bool {
        if !self.known.insert(uid) {
            return false;
        }
        if self.ring.len() < MAX_REMEMBERED_UIDS {
            self.ring.push(uid);
        } else {
            let forgotten = std::mem::replace(&mut self.ring[self.oldest], uid);
            self.known.remove(&forgotten);
            self.oldest = (self.oldest + 1) % MAX_REMEMBERED_UIDS;
        }
        true
    }

    /// Oldest first.
    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = PodUid> {
        let len = self.ring.len().max(1);
        (0..self.ring.len()).map(move |i| self.ring[(self.oldest + i) % len])
    }
}
