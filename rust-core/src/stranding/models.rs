//! Models of GPU that the mix cannot tell apart.

use super::mix::Mix;
use crate::limits::{MAX_MIX_KINDS, MAX_MODELS};
use crate::units::ModelId;

const WORDS: usize = MAX_MIX_KINDS / 64;

/// Partition of all models (and "no model") by the set of kinds that may use them. Without constraints in the mix
/// there is one class, and nodes of all models share their values.
#[derive(Debug)]
pub(super) struct ModelClasses {
    class_of: [u8; MAX_MODELS + 1],
    /// Per class the kinds of the mix that allow it, as a bit set.
    kinds: Vec<[u64; WORDS]>,
}

impl ModelClasses {
    pub(super) fn new(mix: &Mix) -> Self {
        let mut classes = Self { class_of: [0; MAX_MODELS + 1], kinds: Vec::new() };
        for index in 0..=MAX_MODELS {
            let model = if index == MAX_MODELS { ModelId::NONE } else { ModelId(index as u8) };
            let mut allowed = [0u64; WORDS];
            for (i, kind) in mix.kinds().iter().enumerate() {
                if kind.kind.models.contains(model) {
                    allowed[i / 64] |= 1 << (i % 64);
                }
            }
            let class = self_or_push(&mut classes.kinds, allowed);
            classes.class_of[index] = class;
        }
        classes
    }

    /// Class of a model.
    #[inline]
    pub(super) fn of(&self, model: ModelId) -> u8 {
        self.class_of[usize::from(model.0).min(MAX_MODELS)]
    }

    /// Number of classes, 1 to 65.
    pub(super) fn len(&self) -> usize {
        self.kinds.len()
    }

    /// Whether kind `kind` of the mix may use models of `class`.
    pub(super) fn allows(&self, class: usize, kind: usize) -> bool {
        self.kinds[class][kind / 64] >> (kind % 64) & 1 == 1
    }
}

/// Index of `allowed` in `kinds`, appended if it is not there.
fn self_or_push(kinds: &mut Vec<[u64; WORDS]>, allowed: [u64; WORDS]) -> u8 {
    let found = kinds.iter().position(|known| *known == allowed).unwrap_or_else(|| {
        kinds.push(allowed);
        kinds.len() - 1
    });
    found as u8
}
