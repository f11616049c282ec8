//! MIG: a card is a row of memory slices, an instance of a profile takes some of them from a legal start on.
//!
//! [`GPU_MODELS`] is the table of profiles, [`Geometry`] all layouts a card can have, [`Fleet`] the cards of one model
//! with their instances and the choice of node, card and start, [`layouts`] which sets of instances can exist and which
//! layouts serve a demand.

mod fleet;
mod geometry;
pub mod layouts;
mod mix;
mod names;
mod params;
mod profiles;
mod request;
mod strategy;
mod valuation;
mod value;

pub use fleet::{CardId, Chosen, Fleet, MigUnfit};
pub use geometry::{Geometry, LayoutId, Placement, PlacementId, PlacementSet, SliceMask};
pub use mix::ProfileMix;
pub use names::{PROFILE_NAME_COUNT, PROFILE_NAMES, ProfileName};
pub use params::{MAX_CARDS, MAX_INSTANCES};
pub use profiles::{Certainty, GPU_MODELS, GpuModel, Profile, ProfileId};
pub use request::{
    MAX_MIG_KINDS, MAX_MIG_PER_POD, MigHeld, MigInstance, MigInstances, MigKind, MigRequest,
};
pub use strategy::MigStrategy;
pub(crate) use valuation::Valuation;
