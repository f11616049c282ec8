//! What one plan is made from, and what may happen to each pod in it.

use super::board::Piece;
use super::policy::{Policy, yields};
use super::tables::{PodFacts, Tables};
use crate::cluster::{Cluster, PodRecord};
use crate::request::PodRequest;
use crate::units::{PodUid, Priority, Tier};

/// What may happen to a pod.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    /// Stays.
    Fixed,
    /// Is being deleted: counted as gone from the start.
    Leaving,
    /// A reservation that yields to the preemptor: not there.
    Yielding,
    /// May be evicted.
    Victim {
        /// Counts as tier 1.
        tier1: bool,
    },
}

/// What a plan may not exceed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) hard_budgets: bool,
    pub(super) evicted_milli: u64,
}

/// What a board is set up from.
#[derive(Clone, Copy)]
pub(super) struct Scene<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) tables: &'a Tables,
    pub(super) policy: &'a Policy,
    pub(super) now_seconds: i64,
    pub(super) tier: Tier,
    pub(super) priority: Priority,
    pub(super) members: &'a [PodRequest],
    pub(super) bounds: Bounds,
}

impl Scene<'_> {
    pub(super) fn record(&self, piece: &Piece) -> &PodRecord {
        &self.cluster.pods(piece.slot as usize)[piece.position as usize]
    }

    pub(super) fn facts(&self, piece: &Piece) -> PodFacts {
        match self.tables.pods.get(piece.facts as usize) {
            Some(facts) => *facts,
            None => PodFacts {
                restart_seconds: self.policy.restart_seconds,
                grace_seconds: self.policy.grace_seconds,
                ..PodFacts::new(PodUid(0))
            },
        }
    }

    pub(super) fn role(&self, record: &PodRecord, facts: Option<&PodFacts>) -> Role {
        if record.reservation {
            let held = match self.members {
                [one] => record.holds_against(one.uid, self.priority),
                many => many.iter().all(|m| record.holds_against(m.uid, self.priority)),
            };
            return if held { Role::Fixed } else { Role::Yielding };
        }
        if record.terminating {
            return Role::Leaving;
        }
        let consent = !record.foreign || facts.is_some_and(|facts| facts.consent);
        if consent && yields((record.tier, record.priority), (self.tier, self.priority)) {
            Role::Victim { tier1: record.tier == Tier::Training }
        } else {
            Role::Fixed
        }
    }
}
