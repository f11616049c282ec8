//! Profiles by name: what a pod asks for is a name, which is a profile on the models that have it.

use super::profiles::{GPU_MODELS, GpuModel, ProfileId};

/// Index in [`PROFILE_NAMES`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ProfileName(pub u8);

impl ProfileName {
    /// The name's number, if a known model has such a profile.
    #[must_use]
    pub fn named(name: &str) -> Option<ProfileName> {
        PROFILE_NAMES.iter().position(|known| *known == name).map(|at| ProfileName(at as u8))
    }

    /// As nvidia-smi writes it.
    ///
    /// # Panics
    /// It is no index of [`PROFILE_NAMES`].
    #[must_use]
    pub const fn name(self) -> &'static str {
        PROFILE_NAMES[self.0 as usize]
    }

    /// The profile of that name on a model.
    #[inline]
    #[must_use]
    pub fn on(self, model: usize) -> Option<ProfileId> {
        let index = *PROFILE_OF.get(model)?.get(usize::from(self.0))?;
        (index != ABSENT).then_some(ProfileId(index))
    }

    /// The name of a model's profile.
    ///
    /// # Panics
    /// The model does not have the profile.
    #[must_use]
    pub fn of(model: &GpuModel, profile: ProfileId) -> ProfileName {
        ProfileName::named(model.profiles[profile.index()].name).expect("every name is listed")
    }
}

const ABSENT: u8 = u8::MAX;

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut at = 0;
    while at < a.len() {
        if a[at] != b[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// Position of a name among the first `count`.
const fn position(names: &[&str], count: usize, name: &str) -> usize {
    let mut at = 0;
    while at < count && !same(names[at], name) {
        at += 1;
    }
    at
}

const MOST: usize = 128;

const fn collect() -> ([&'static str; MOST], usize) {
    let mut names = [""; MOST];
    let (mut count, mut model) = (0, 0);
    while model < GPU_MODELS.len() {
        let mut profile = 0;
        while profile < GPU_MODELS[model].profiles.len() {
            let name = GPU_MODELS[model].profiles[profile].name;
            if position(&names, count, name) == count {
                names[count] = name;
                count += 1;
            }
            profile += 1;
        }
        model += 1;
    }
    (names, count)
}

/// Number of distinct names.
pub const PROFILE_NAME_COUNT: usize = collect().1;

/// The names of all profiles of all models, each once, in the order of the table.
pub const PROFILE_NAMES: [&str; PROFILE_NAME_COUNT] = {
    let mut names = [""; PROFILE_NAME_COUNT];
    let mut at = 0;
    while at < PROFILE_NAME_COUNT {
        names[at] = collect().0[at];
        at += 1;
    }
    names
};

const PROFILE_OF: [[u8; PROFILE_NAME_COUNT]; GPU_MODELS.len()] = {
    let mut table = [[ABSENT; PROFILE_NAME_COUNT]; GPU_MODELS.len()];
    let mut model = 0;
    while model < GPU_MODELS.len() {
        let mut profile = 0;
        while profile < GPU_MODELS[model].profiles.len() {
            let name = GPU_MODELS[model].profiles[profile].name;
            table[model][position(&PROFILE_NAMES, PROFILE_NAME_COUNT, name)] = profile as u8;
            profile += 1;
        }
        model += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_has_one_name_and_is_found_by_it() {
        for (index, model) in GPU_MODELS.iter().enumerate() {
            for (at, profile) in model.profiles.iter().enumerate() {
                let name = ProfileName::named(profile.name).expect("listed");
                assert_eq!(name.name(), profile.name);
                assert_eq!(name.on(index), Some(ProfileId(at as u8)));
                assert_eq!(ProfileName::of(model, ProfileId(at as u8)), name);
            }
            let has = (0..PROFILE_NAME_COUNT as u8).filter(|&n| ProfileName(n).on(index).is_some());
            assert_eq!(has.count(), model.profiles.len());
        }
        let mut names = PROFILE_NAMES.to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), PROFILE_NAME_COUNT);
        assert_eq!(ProfileName::named("1g.11gb"), None);
        assert_eq!(ProfileName(0).on(GPU_MODELS.len()), None);
    }
}
