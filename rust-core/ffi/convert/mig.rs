//! The MIG parts of nodes and pods.

use mortise_core::cluster::{MigCard, MigCards};
use mortise_core::limits::MAX_GPUS_PER_NODE;
use mortise_core::mig::{
    MAX_MIG_PER_POD, MigHeld, MigInstance, MigInstances, MigKind, MigRequest, ProfileName,
};

use super::Place;
use crate::abi;
use crate::fault::Fault;

/// Instances by profile.
pub(super) fn request(
    place: Place,
    field: &str,
    kinds: &[abi::mortise_mig_kind],
) -> Result<MigRequest, Fault> {
    if kinds.iter().all(|kind| kind.count == 0) {
        return Ok(MigRequest::NONE);
    }
    let mut list = [MigKind::default(); abi::MORTISE_MAX_MIG_KINDS as usize];
    for (to, kind) in list.iter_mut().zip(kinds) {
        *to = MigKind { profile: ProfileName(kind.profile), count: kind.count };
    }
    MigRequest::new(&list).map_err(|error| {
        let mut fault = Fault::from(error);
        fault.message = format!("{}: {}", place.field(field), fault.message);
        fault
    })
}

/// What a pod holds.
pub(super) fn held(place: Place, pod: &abi::mortise_pod_record) -> Result<MigHeld, Fault> {
    let unknown = request(place, "mig_unknown", &pod.mig_unknown)?;
    let count = usize::from(pod.mig_count);
    if count > MAX_MIG_PER_POD {
        return Err(Fault::limit(place.field("mig_count"), count, MAX_MIG_PER_POD));
    }
    if count == 0 {
        return Ok(MigHeld { known: MigInstances::NONE, unknown });
    }
    let mut known = MigInstances::NONE;
    for instance in &pod.mig[..count] {
        known.push(MigInstance { device: instance.device, placement: instance.place });
    }
    Ok(MigHeld { known: known.sorted(), unknown })
}

/// What the cards of a node offer.
pub(super) fn cards(place: Place, node: &abi::mortise_node_delta) -> Result<MigCards, Fault> {
    let mut cards = [MigCard::NONE; MAX_GPUS_PER_NODE];
    for (device, card) in cards.iter_mut().enumerate() {
        let (model, places) = (node.mig_model[device], node.mig_places[device]);
        *card = match model {
            0 if places == 0 => continue,
            0 => {
                let field = place.field(&format!("mig_places[{device}]"));
                let fix = "the card has no mig_model; leave it zero, or name the model";
                return Err(Fault::invalid(field, format!("{places:#x}"), fix));
            }
            _ => MigCard::new(usize::from(model) - 1, places).map_err(|error| {
                let mut fault = Fault::from(error);
                fault.message =
                    format!("{}: {}", place.field(&format!("mig_model[{device}]")), fault.message);
                fault
            })?,
        };
    }
    Ok(cards)
}
