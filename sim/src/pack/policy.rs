//! Policies by name.

use std::fmt;
use std::str::FromStr;

use mortise_core::Strategy;

/// A placement policy: one of the kernel's strategies.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Policy(pub Strategy);

/// Names of the published comparison, beside the kernel's own.
const PUBLISHED: [(&str, Strategy); 6] = [
    ("01-Random", Strategy::Random),
    ("02-DotProd", Strategy::DotProduct),
    ("03-GpuClustering", Strategy::GpuClustering),
    ("04-GpuPacking", Strategy::GpuPacking),
    ("05-BestFit", Strategy::BestFit),
    ("06-FGD", Strategy::Fgd),
];

/// A name that no policy has.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("unknown policy {name:?}; expected one of {}", known())]
pub struct PolicyError {
    name: String,
}

impl Policy {
    /// The kernel's name for it.
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// Its name in the published comparison, if it is part of it.
    pub fn published_name(self) -> Option<&'static str> {
        PUBLISHED.iter().find(|(_, strategy)| *strategy == self.0).map(|&(name, _)| name)
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Policy {
    type Err = PolicyError;

    /// Takes the kernel's name or the published one with or without its number, in any case.
    fn from_str(name: &str) -> Result<Policy, PolicyError> {
        let same = |known: &str| known.eq_ignore_ascii_case(name);
        let own = Strategy::ALL.into_iter().find(|strategy| same(strategy.name()));
        let published = PUBLISHED.iter().find(|(known, _)| same(known) || same(&known[3..]));
        own.or(published.map(|&(_, strategy)| strategy))
            .map(Policy)
            .ok_or_else(|| PolicyError { name: name.to_owned() })
    }
}

fn known() -> String {
    Strategy::ALL.map(Strategy::name).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_names_are_understood() {
        for (name, strategy) in PUBLISHED {
            assert_eq!(name.parse(), Ok(Policy(strategy)));
            assert_eq!(name[3..].to_lowercase().parse(), Ok(Policy(strategy)));
            assert_eq!(Policy(strategy).published_name(), Some(name));
        }
        assert_eq!("expected-stranding".parse(), Ok(Policy(Strategy::ExpectedStranding)));
        assert_eq!(Policy(Strategy::ExpectedStranding).published_name(), None);
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let error = "best".parse::<Policy>().unwrap_err().to_string();
        for expected in ["\"best\"", "best-fit", "expected-stranding"] {
            assert!(error.contains(expected), "{error}");
        }
    }
}
