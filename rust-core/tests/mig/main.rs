//! MIG placement: the table, the rules against a naive twin, decisions against the exact optimum, reported scenarios.

mod kernel;
mod layouts;
mod optimum;
mod scenarios;
mod table;
mod twin;

use mortise_core::NodeKey;
use mortise_core::mig::{Chosen, Fleet, GpuModel, MigStrategy, ProfileId};

pub(crate) fn h100() -> &'static GpuModel {
    GpuModel::named("h100-80gb").expect("the table has it")
}

pub(crate) fn profile(name: &str) -> ProfileId {
    h100().profile(name).expect("the model has it")
}

/// One node with that many cards.
pub(crate) fn fleet(cards: u8, strategy: MigStrategy) -> Fleet {
    Fleet::new(h100(), &[(NodeKey(7), cards)], strategy, 1).expect("valid")
}

/// Counts the request, chooses and places.
pub(crate) fn arrive(fleet: &mut Fleet, profile: ProfileId) -> Option<Chosen> {
    let mut chosen = Vec::new();
    fleet.observe(profile, 1).expect("valid");
    fleet.choose(profile, 1, &mut chosen).expect("valid").ok()?;
    fleet.place(chosen[0].card, chosen[0].placement).expect("what was chosen fits");
    Some(chosen[0])
}
