//! Names and places of MIG.

use std::ffi::{CStr, c_char};
use std::ptr;

use mortise_core::mig::{
    GPU_MODELS, MigStrategy, PROFILE_NAME_COUNT, PROFILE_NAMES, ProfileId, ProfileName,
};

use crate::abi;
use crate::boundary::{OutStruct, Regions, enter};
use crate::fault::Fault;
use crate::pin_to_header;

pin_to_header! {
    mortise_mig_model_name mortise_mig_profile_name mortise_mig_strategy_name mortise_mig_place_at
}

/// Bytes of the longest name with its NUL, and to spare.
const ROOM: usize = 24;

/// A name as C reads it.
const fn c_string(name: &str) -> [u8; ROOM] {
    let bytes = name.as_bytes();
    let mut out = [0; ROOM];
    let mut at = 0;
    assert!(bytes.len() < ROOM);
    while at < bytes.len() {
        out[at] = bytes[at];
        at += 1;
    }
    out
}

static PROFILES: [[u8; ROOM]; PROFILE_NAME_COUNT] = {
    let mut names = [[0; ROOM]; PROFILE_NAME_COUNT];
    let mut at = 0;
    while at < PROFILE_NAME_COUNT {
        names[at] = c_string(PROFILE_NAMES[at]);
        at += 1;
    }
    names
};

static MODELS: [[u8; ROOM]; GPU_MODELS.len()] = {
    let mut names = [[0; ROOM]; GPU_MODELS.len()];
    let mut at = 0;
    while at < GPU_MODELS.len() {
        names[at] = c_string(GPU_MODELS[at].name);
        at += 1;
    }
    names
};

const STRATEGIES: [&CStr; 4] = [c"expected-stranding", c"mfi", c"best-fit", c"first-fit"];

fn name(names: &'static [[u8; ROOM]], index: Option<usize>) -> *const c_char {
    index.and_then(|index| names.get(index)).map_or(ptr::null(), |name| name.as_ptr().cast())
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn mortise_mig_model_name(model: u8) -> *const c_char {
    name(&MODELS, usize::from(model).checked_sub(1))
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn mortise_mig_profile_name(profile: u8) -> *const c_char {
    name(&PROFILES, Some(usize::from(profile)))
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn mortise_mig_strategy_name(index: u32) -> *const c_char {
    STRATEGIES.get(index as usize).map_or(ptr::null(), |name| name.as_ptr())
}

/// See the header.
///
/// # Safety
/// The header's promise for its pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mortise_mig_place_at(
    model: u8,
    place: u8,
    out_place: *mut abi::mortise_mig_place,
    err: *mut abi::mortise_error,
) -> abi::mortise_status {
    let body = |regions: &mut Regions| {
        // SAFETY: the header's promise for `out_place`.
        let out = unsafe { OutStruct::new(regions, "out_place", out_place)? };
        out.write(place_at(model, place)?);
        Ok(())
    };
    // SAFETY: the header's promise for `err`.
    unsafe { enter(err, body) }
}

/// Places stand in the order of profiles, then starts, as in the kernel's geometry.
fn place_at(model: u8, place: u8) -> Result<abi::mortise_mig_place, Fault> {
    let Some(facts) = usize::from(model).checked_sub(1).and_then(|model| GPU_MODELS.get(model))
    else {
        let fix = format!("MIG models have the numbers 1 to {}", GPU_MODELS.len());
        return Err(Fault::invalid("model", model, &fix));
    };
    let mut left = usize::from(place);
    for (index, profile) in facts.profiles.iter().enumerate() {
        if let Some(&start) = profile.starts.get(left) {
            return Ok(abi::mortise_mig_place {
                struct_size: 0,
                profile: ProfileName::of(facts, ProfileId(index as u8)).0,
                start,
                slices: profile.memory_slices,
                media: profile.media.into(),
            });
        }
        left -= profile.starts.len();
    }
    let fix = format!("{} has {} places", facts.name, usize::from(place) - left);
    Err(Fault::invalid("place", place, &fix))
}

const _: () = assert!(STRATEGIES.len() == MigStrategy::ALL.len());

#[cfg(test)]
mod tests {
    use super::*;
    use mortise_core::mig::{Geometry, PlacementId};

    #[test]
    fn places_are_those_of_the_geometry() {
        for (index, facts) in GPU_MODELS.iter().enumerate() {
            let geometry = Geometry::new(facts);
            let model = index as u8 + 1;
            for (at, placement) in geometry.placements().iter().enumerate() {
                let place = place_at(model, at as u8).expect("a place");
                let name = ProfileName(place.profile).name();
                assert_eq!(name, facts.profiles[placement.profile.index()].name);
                assert_eq!(place.start, placement.start);
                let slices = geometry.slices(PlacementId(at as u8));
                assert_eq!(slices, (((1u16 << place.slices) - 1) << place.start) as u8);
            }
            let count = geometry.placements().len();
            let fault = place_at(model, count as u8).expect_err("past the end");
            assert!(fault.message.contains(&format!("has {count} places")), "{}", fault.message);
        }
        assert!(place_at(0, 0).is_err() && place_at(GPU_MODELS.len() as u8 + 1, 0).is_err());
    }

    #[test]
    fn names_are_those_of_the_kernel() {
        let read = |name: *const c_char| {
            // SAFETY: the names are static and end in a NUL.
            (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_str().expect("UTF-8"))
        };
        for (at, name) in PROFILE_NAMES.iter().enumerate() {
            assert_eq!(read(mortise_mig_profile_name(at as u8)), Some(*name));
        }
        assert_eq!(read(mortise_mig_profile_name(PROFILE_NAME_COUNT as u8)), None);
        for (at, model) in GPU_MODELS.iter().enumerate() {
            assert_eq!(read(mortise_mig_model_name(at as u8 + 1)), Some(model.name));
        }
        assert_eq!(read(mortise_mig_model_name(0)), None);
        assert_eq!(read(mortise_mig_model_name(GPU_MODELS.len() as u8 + 1)), None);
        for (at, strategy) in MigStrategy::ALL.iter().enumerate() {
            assert_eq!(read(mortise_mig_strategy_name(at as u32)), Some(strategy.name()));
        }
        assert_eq!(read(mortise_mig_strategy_name(4)), None);
    }
}
