//! The profile table: which MIG instances a GPU can hold, and where they may start.
//!
//! Source: the "Supported MIG Profiles" page of NVIDIA's MIG User Guide (names, memory fractions, instance counts) and
//! published listings of `nvidia-smi mig -lgipp` (starts). Starts and sizes count memory slices, as NVML does.

/// How a row of the table is known.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Certainty {
    /// Seen in a listing of real hardware.
    Confirmed,
    /// Names and counts from the guide; starts by analogy with a GPU of the same die or the same fractions.
    Inferred,
}

/// One GPU-instance profile of a GPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Profile {
    /// Its name, such as `1g.10gb`.
    pub name: &'static str,
    /// Compute slices, the number before `g`.
    pub compute_slices: u8,
    /// Memory slices.
    pub memory_slices: u8,
    /// Memory slices at which an instance may start, ascending.
    pub starts: &'static [u8],
    /// Instances of this profile that one GPU can hold.
    pub max_instances: u8,
    /// With the media engines (`+me`): at most one such instance per GPU, whatever its size.
    pub media: bool,
}

/// A GPU that can be partitioned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GpuModel {
    /// Name in commands and messages, such as `h100-80gb`.
    pub name: &'static str,
    /// Memory slices of a card.
    pub memory_slices: u8,
    /// Compute slices of a card.
    pub compute_slices: u8,
    /// PCI device and vendor ids, as `device-filter` entries of mig-parted write them.
    pub pci_ids: &'static [u32],
    /// How starts and sizes are known.
    pub certainty: Certainty,
    /// The profiles, smallest first.
    pub profiles: &'static [Profile],
}

const ANY_BUT_LAST: &[u8] = &[0, 1, 2, 3, 4, 5, 6];

const fn profile(name: &'static str, compute: u8, memory: u8, starts: &'static [u8]) -> Profile {
    Profile {
        name,
        compute_slices: compute,
        memory_slices: memory,
        starts,
        max_instances: starts.len() as u8,
        media: false,
    }
}

const fn media(name: &'static str, compute: u8, memory: u8, starts: &'static [u8]) -> Profile {
    Profile { media: true, max_instances: 1, ..profile(name, compute, memory, starts) }
}

/// The seven profiles that every 7g card has; only the names differ. The last memory slice takes no `1g` of one slice.
macro_rules! seven_slices {
    ($one:literal, $one_me:literal, $one_wide:literal, $two:literal, $three:literal, $four:literal, $seven:literal) => {
        &[
            profile($one, 1, 1, ANY_BUT_LAST),
            media($one_me, 1, 1, ANY_BUT_LAST),
            profile($one_wide, 1, 2, &[0, 2, 4, 6]),
            profile($two, 2, 2, &[0, 2, 4]),
            profile($three, 3, 4, &[0, 4]),
            profile($four, 4, 4, &[0]),
            profile($seven, 7, 8, &[0]),
        ]
    };
}

const fn seven(
    name: &'static str,
    certainty: Certainty,
    pci_ids: &'static [u32],
    profiles: &'static [Profile],
) -> GpuModel {
    GpuModel { name, memory_slices: 8, compute_slices: 7, pci_ids, certainty, profiles }
}

const fn four(
    name: &'static str,
    certainty: Certainty,
    pci_ids: &'static [u32],
    profiles: &'static [Profile],
) -> GpuModel {
    GpuModel { name, memory_slices: 4, compute_slices: 4, pci_ids, certainty, profiles }
}

/// All GPUs that are known.
///
/// The mock tables of go-nvml differ for H100, H200 and B200 (3g of 3 slices, 7g of 7); real listings of the H100 do not
/// bear them out, so they are not followed.
pub const GPU_MODELS: &[GpuModel] = &[
    four(
        "a30-24gb",
        Certainty::Confirmed,
        &[0x20b7_10de],
        &[
            profile("1g.6gb", 1, 1, &[0, 1, 2, 3]),
            media("1g.6gb+me", 1, 1, &[0, 1, 2, 3]),
            profile("2g.12gb", 2, 2, &[0, 2]),
            media("2g.12gb+me", 2, 2, &[0, 2]),
            profile("4g.24gb", 4, 4, &[0]),
        ],
    ),
    seven(
        "a100-40gb",
        Certainty::Confirmed,
        &[0x20b0_10de, 0x20b1_10de, 0x20f1_10de, 0x20f6_10de],
        seven_slices!("1g.5gb", "1g.5gb+me", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"),
    ),
    seven(
        "a100-80gb",
        Certainty::Confirmed,
        &[0x20b2_10de, 0x20b5_10de, 0x20f3_10de, 0x20f5_10de],
        seven_slices!(
            "1g.10gb",
            "1g.10gb+me",
            "1g.20gb",
            "2g.20gb",
            "3g.40gb",
            "4g.40gb",
            "7g.80gb"
        ),
    ),
    seven(
        "h100-80gb",
        Certainty::Confirmed,
        &[0x2330_10de, 0x2331_10de, 0x2322_10de, 0x2324_10de],
        seven_slices!(
            "1g.10gb",
            "1g.10gb+me",
            "1g.20gb",
            "2g.20gb",
            "3g.40gb",
            "4g.40gb",
            "7g.80gb"
        ),
    ),
    seven(
        "h100-94gb",
        Certainty::Confirmed,
        &[0x2321_10de, 0x233a_10de],
        seven_slices!(
            "1g.12gb",
            "1g.12gb+me",
            "1g.24gb",
            "2g.24gb",
            "3g.47gb",
            "4g.47gb",
            "7g.94gb"
        ),
    ),
    seven(
        "h100-96gb",
        Certainty::Inferred,
        &[0x2342_10de, 0x233d_10de, 0x20b6_10de, 0x2329_10de],
        seven_slices!(
            "1g.12gb",
            "1g.12gb+me",
            "1g.24gb",
            "2g.24gb",
            "3g.48gb",
            "4g.48gb",
            "7g.96gb"
        ),
    ),
    seven(
        "h200-141gb",
        Certainty::Inferred,
        &[0x2335_10de, 0x233b_10de],
        seven_slices!(
            "1g.18gb",
            "1g.18gb+me",
            "1g.35gb",
            "2g.35gb",
            "3g.71gb",
            "4g.71gb",
            "7g.141gb"
        ),
    ),
    seven(
        "b200-180gb",
        Certainty::Inferred,
        &[0x2901_10de],
        seven_slices!(
            "1g.23gb",
            "1g.23gb+me",
            "1g.45gb",
            "2g.45gb",
            "3g.90gb",
            "4g.90gb",
            "7g.180gb"
        ),
    ),
    four(
        "rtx-pro-6000-96gb",
        Certainty::Inferred,
        &[0x2bb5_10de],
        &[
            profile("1g.24gb", 1, 1, &[0, 1, 2, 3]),
            media("1g.24gb+me", 1, 1, &[0, 1, 2, 3]),
            profile("2g.48gb", 2, 2, &[0, 2]),
            profile("4g.96gb", 4, 4, &[0]),
        ],
    ),
];

impl GpuModel {
    /// The model of that name, in any case.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static GpuModel> {
        GPU_MODELS.iter().find(|model| model.name.eq_ignore_ascii_case(name))
    }

    /// The model with that PCI device and vendor id.
    #[must_use]
    pub fn with_pci_id(id: u32) -> Option<&'static GpuModel> {
        GPU_MODELS.iter().find(|model| model.pci_ids.contains(&id))
    }

    /// The profile of that name.
    #[must_use]
    pub fn profile(&self, name: &str) -> Option<ProfileId> {
        let index = self.profiles.iter().position(|profile| profile.name == name)?;
        Some(ProfileId(index as u8))
    }
}

/// Index of a profile in [`GpuModel::profiles`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ProfileId(pub u8);

impl ProfileId {
    /// As an index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}
