//! Placement strategies for MIG instances, by name.

use std::fmt;
use std::str::FromStr;

use super::geometry::{Geometry, LayoutId};
use crate::error::Error;

/// How a card and a start are chosen. Every strategy takes what fits; equals are taken in the fleet's order, then by
/// lowest start.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum MigStrategy {
    /// Least slices stranded and least scarce places lost, for the mix learned so far.
    #[default]
    ExpectedStranding,
    /// Minimum fragmentation increment: fewest legal starts blocked, weighted by size, of the profiles that the free
    /// slices would hold.
    Mfi,
    /// The card with the fewest free slices.
    BestFit,
    /// The first card with a legal start.
    FirstFit,
}

impl MigStrategy {
    /// All strategies, ours first.
    pub const ALL: [MigStrategy; 4] =
        [Self::ExpectedStranding, Self::Mfi, Self::BestFit, Self::FirstFit];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ExpectedStranding => "expected-stranding",
            Self::Mfi => "mfi",
            Self::BestFit => "best-fit",
            Self::FirstFit => "first-fit",
        }
    }
}

impl fmt::Display for MigStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for MigStrategy {
    type Err = Error;

    fn from_str(name: &str) -> Result<MigStrategy, Error> {
        Self::ALL
            .into_iter()
            .find(|strategy| strategy.name().eq_ignore_ascii_case(name))
            .ok_or_else(|| {
                let known = Self::ALL.map(Self::name).join(", ");
                Error::invalid("MIG strategy", name, format!("expected one of {known}"))
            })
    }
}

/// Fragmentation of a card: over the profiles that its free slices would hold, size times the legal starts blocked.
pub(super) fn fragmentation(geometry: &Geometry, layout: LayoutId) -> i64 {
    let free = geometry.free_slices(layout);
    let used = geometry.used(layout);
    let blocked = |index: usize, size: u8| {
        let profile = super::profiles::ProfileId(index as u8);
        let starts = geometry.placements_of(profile);
        i64::from(size) * starts.filter(|&id| geometry.slices(id) & used != 0).count() as i64
    };
    let profiles = geometry.model().profiles.iter().enumerate();
    profiles
        .filter(|(_, profile)| profile.memory_slices <= free && !profile.media)
        .map(|(index, profile)| blocked(index, profile.memory_slices))
        .sum()
}
