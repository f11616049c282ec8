//! Who is evicted: the policies that are compared, by name.

use std::fmt;
use std::str::FromStr;

/// A way to choose victims.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Policy {
    /// The kernel's planner with the progress guarantee.
    MinLostWork,
    /// The kernel's planner without it.
    MinLostWorkStrict,
    /// kube-scheduler's default preemption.
    KubeDefault,
    /// Volcano's victim bundles by freed-toward-need per resources killed.
    VolcanoRoi,
    /// Kueue: lower priority first, most recently admitted first, then filled back.
    KueueOrder,
    /// KAI: victims in queue order until the pod fits.
    KaiOrder,
    /// Random victims, lower tiers first.
    Random,
}

impl Policy {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::MinLostWork,
        Self::MinLostWorkStrict,
        Self::KubeDefault,
        Self::VolcanoRoi,
        Self::KueueOrder,
        Self::KaiOrder,
        Self::Random,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MinLostWork => "min-lost-work",
            Self::MinLostWorkStrict => "min-lost-work-strict",
            Self::KubeDefault => "kube-default",
            Self::VolcanoRoi => "volcano-roi",
            Self::KueueOrder => "kueue-order",
            Self::KaiOrder => "kai-order",
            Self::Random => "random",
        }
    }

    /// Whether it is the kernel's planner.
    pub const fn is_ours(self) -> bool {
        matches!(self, Self::MinLostWork | Self::MinLostWorkStrict)
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that no policy has.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("unknown policy {name:?}; expected one of {}", Policy::ALL.map(Policy::name).join(", "))]
pub struct PolicyError {
    name: String,
}

impl FromStr for Policy {
    type Err = PolicyError;

    fn from_str(name: &str) -> Result<Self, PolicyError> {
        Self::ALL
            .into_iter()
            .find(|policy| policy.name().eq_ignore_ascii_case(name))
            .ok_or_else(|| PolicyError { name: name.to_owned() })
    }
}
