//! What pods ask of MIG, and what they hold.

use super::names::{PROFILE_NAME_COUNT, ProfileName};
use crate::error::Error;
use crate::limits::CARD_MILLI;

/// Different profiles that one pod may ask for.
pub const MAX_MIG_KINDS: usize = 4;
/// Instances that one pod may ask for or hold.
pub const MAX_MIG_PER_POD: usize = 16;

/// So many instances of one profile. Without any, it stands for nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct MigKind {
    /// The profile.
    pub profile: ProfileName,
    /// How many.
    pub count: u8,
}

/// The instances a pod asks for, on one node. Kinds stand in the order of their profiles, each once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct MigRequest([MigKind; MAX_MIG_KINDS]);

impl MigRequest {
    /// No instance.
    pub const NONE: Self = Self([MigKind { profile: ProfileName(0), count: 0 }; MAX_MIG_KINDS]);

    /// `count` instances of one profile.
    ///
    /// # Errors
    /// As [`MigRequest::new`].
    pub fn of(profile: ProfileName, count: u8) -> Result<Self, Error> {
        Self::new(&[MigKind { profile, count }])
    }

    /// These kinds; those without instances are left out, those of one profile added up.
    ///
    /// # Errors
    /// [`Error::InvalidValue`] for a profile that is not known, [`Error::LimitExceeded`] for more than
    /// [`MAX_MIG_PER_POD`] instances or [`MAX_MIG_KINDS`] profiles.
    pub fn new(kinds: &[MigKind]) -> Result<Self, Error> {
        let mut request = Self::NONE;
        let mut total = 0usize;
        for kind in kinds.iter().filter(|kind| kind.count > 0) {
            if usize::from(kind.profile.0) >= PROFILE_NAME_COUNT {
                let fix = format!("there are {PROFILE_NAME_COUNT} names of profiles");
                return Err(Error::invalid("MIG profile", kind.profile.0, fix));
            }
            total += usize::from(kind.count);
            if total > MAX_MIG_PER_POD {
                return Err(Error::limit("MIG instances", total as i128, MAX_MIG_PER_POD as i128));
            }
            let known = |other: &&mut MigKind| other.count == 0 || other.profile == kind.profile;
            let Some(entry) = request.0.iter_mut().find(known) else {
                return Err(Error::limit(
                    "different MIG profiles",
                    MAX_MIG_KINDS as i128 + 1,
                    MAX_MIG_KINDS as i128,
                ));
            };
            *entry = MigKind { profile: kind.profile, count: entry.count + kind.count };
        }
        let used = request.0.iter().take_while(|kind| kind.count > 0).count();
        request.0[..used].sort_unstable();
        Ok(request)
    }

    /// No instance is asked for.
    #[inline]
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.0[0].count == 0
    }

    /// The kinds.
    pub fn kinds(&self) -> impl Iterator<Item = MigKind> + '_ {
        self.0.iter().copied().take_while(|kind| kind.count > 0)
    }

    /// Number of instances.
    #[must_use]
    pub fn total(&self) -> usize {
        self.kinds().map(|kind| usize::from(kind.count)).sum()
    }
}

/// An instance on a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct MigInstance {
    /// The card, a device of the node.
    pub device: u8,
    /// Profile and start: a [`PlacementId`](super::PlacementId) of the card's model.
    pub placement: u8,
}

/// A list of at most [`MAX_MIG_PER_POD`] instances.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct MigInstances {
    items: [MigInstance; MAX_MIG_PER_POD],
    len: u8,
}

impl MigInstances {
    /// None.
    pub const NONE: Self =
        Self { items: [MigInstance { device: 0, placement: 0 }; MAX_MIG_PER_POD], len: 0 };

    /// Appends one; false if the list is full.
    pub const fn push(&mut self, instance: MigInstance) -> bool {
        if self.len as usize == MAX_MIG_PER_POD {
            return false;
        }
        self.items[self.len as usize] = instance;
        self.len += 1;
        true
    }

    /// The same in rising order, which is the order of [`MigHeld`].
    #[must_use]
    pub fn sorted(mut self) -> Self {
        self.items[..usize::from(self.len)].sort_unstable();
        self
    }

    /// The instances, in order.
    #[must_use]
    pub fn as_slice(&self) -> &[MigInstance] {
        &self.items[..usize::from(self.len)]
    }
}

/// What a pod on a node holds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct MigHeld {
    /// Instances that are known, in rising order.
    pub known: MigInstances,
    /// Instances of which only the profile is known.
    pub unknown: MigRequest,
}

impl MigHeld {
    /// Nothing.
    pub const NONE: Self = Self { known: MigInstances::NONE, unknown: MigRequest::NONE };

    /// Nothing is held.
    #[inline]
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.known.len == 0 && self.unknown.is_none()
    }

    /// Roughly what it is of a card: a seventh for each instance, whatever its profile.
    #[must_use]
    pub fn milli(&self) -> u32 {
        (u32::from(self.known.len) + self.unknown.total() as u32) * u32::from(CARD_MILLI) / 7
    }
}
