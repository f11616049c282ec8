//! MIG: a card is a row of memory slices, an instance of a profile takes some of them from a legal start on.
//!
//! [`GPU_MODELS`] is the table of profiles, [`Geometry`] all layouts a card can have, [`Fleet`] the cards of one model
//! with their instances and the choice of node, card and start, [`layouts`] which sets of instances can exist and which
//! layouts serve a demand.

mod fleet;
mod geometry;
pub mod layouts;
mod mix;
mod params;
mod profiles;
mod strategy;
mod value;

pub use fleet::{CardId, Chosen, Fleet, MigUnfit};
pub use geometry::{Geometry, LayoutId, Placement, PlacementId, PlacementSet, SliceMask};
pub use mix::ProfileMix;
pub use params::{MAX_CARDS, MAX_INSTANCES};
pub use profiles::{Certainty, GPU_MODELS, GpuModel, Profile, ProfileId};
pub use strategy::MigStrategy;
