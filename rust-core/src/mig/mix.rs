//! How often each profile is asked for.

use super::params::{
    ARRIVAL_WEIGHT, DECAY_SHIFT, PRIOR_ARRIVALS, RELEARN_DOUBLING_UNTIL, RELEARN_EVERY_ARRIVALS,
};

/// Learned counts of arrivals by profile.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProfileMix {
    arrivals: u64,
    weights: Vec<u64>,
}

impl ProfileMix {
    pub(crate) fn new(profiles: usize) -> ProfileMix {
        ProfileMix { arrivals: 0, weights: vec![0; profiles] }
    }

    /// Counts one arrival; true if it is time to learn the mix anew.
    pub(crate) fn observe(&mut self, profile: usize, count: u8) -> bool {
        self.arrivals += 1;
        self.weights[profile] += u64::from(count) * ARRIVAL_WEIGHT;
        let steady = self.arrivals > RELEARN_DOUBLING_UNTIL;
        let every = self.arrivals.is_multiple_of(RELEARN_EVERY_ARRIVALS);
        if steady && every {
            self.weights.iter_mut().for_each(|weight| *weight -= *weight >> DECAY_SHIFT);
        }
        if steady { every } else { self.arrivals.is_power_of_two() }
    }

    /// A mix as it was exported: arrivals and what was counted.
    pub(crate) const fn restore(arrivals: u64, weights: Vec<u64>) -> ProfileMix {
        ProfileMix { arrivals, weights }
    }

    /// What was counted, without what every profile counts from the start.
    pub(crate) fn counted(&self) -> &[u64] {
        &self.weights
    }

    /// Requests counted.
    #[must_use]
    pub const fn arrivals(&self) -> u64 {
        self.arrivals
    }

    /// Weights by profile, each at least that of one arrival.
    pub fn weights(&self) -> impl Iterator<Item = u64> + '_ {
        self.weights.iter().map(|weight| weight + PRIOR_ARRIVALS * ARRIVAL_WEIGHT)
    }
}
