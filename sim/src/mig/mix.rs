//! The profile mixes.

use std::fmt;
use std::str::FromStr;

use mortise_core::mig::{GpuModel, ProfileId};

/// A mix by name: weights of the six plain profiles of a 7g card, smallest first.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MigMix {
    /// Its name.
    pub name: &'static str,
    weights: [f64; 6],
}

/// The four mixes of the comparison.
pub const MIXES: [MigMix; 4] = [
    MigMix { name: "uniform", weights: [1.0, 1.0, 1.0, 1.0, 1.0, 1.0] },
    MigMix { name: "small", weights: [4.0, 2.0, 2.0, 1.0, 0.5, 0.5] },
    MigMix { name: "mid", weights: [1.0, 1.0, 2.0, 3.0, 2.0, 0.5] },
    MigMix { name: "big", weights: [0.5, 0.5, 1.0, 2.0, 2.0, 4.0] },
];

impl MigMix {
    /// Profiles and weights on one model; models with fewer profiles take the weights of those of the same slices.
    #[must_use]
    pub fn on(&self, model: &GpuModel) -> Vec<(ProfileId, f64)> {
        let plain = model.profiles.iter().enumerate().filter(|(_, profile)| !profile.media);
        let whole = model.memory_slices;
        plain
            .map(|(index, profile)| {
                let at = match (profile.compute_slices, profile.memory_slices) {
                    (_, memory) if memory == whole => 5,
                    (1, 1) => 0,
                    (1, _) => 1,
                    (2, _) => 2,
                    (3, _) => 3,
                    _ => 4,
                };
                (ProfileId(index as u8), self.weights[at])
            })
            .collect()
    }
}

impl fmt::Display for MigMix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name)
    }
}

impl FromStr for MigMix {
    type Err = String;

    fn from_str(name: &str) -> Result<MigMix, String> {
        MIXES.into_iter().find(|mix| mix.name == name).ok_or_else(|| {
            format!(
                "unknown mix {name:?}; expected one of {}",
                MIXES.map(|mix| mix.name).join(", ")
            )
        })
    }
}
