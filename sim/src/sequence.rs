//! The published arrival sequence: shuffle the trace, then resample or thin it to a multiple of the cluster's GPU capacity.
//!
//! The rules are those of the FGD artifact (Weng et al., USENIX ATC 2023): times in the trace play no part, no pod leaves, and
//! resampled copies come after the originals. Only the distribution is reproduced, not the artifact's random stream.

use rand::seq::SliceRandom;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::trace::Trace;

/// Longest sequence that is built; beyond it the load is refused.
pub const MAX_ARRIVALS: usize = 10_000_000;

/// Why no sequence can be built.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SequenceError {
    /// Resampling a trace without GPU requests would never reach the load.
    #[error(
        "trace {trace}: no pod asks for a GPU, so no number of pods reaches the load; expected at least one pod with num_gpu above 0"
    )]
    NoGpuRequests {
        /// The trace's name.
        trace: String,
    },
    /// See [`MAX_ARRIVALS`].
    #[error(
        "trace {trace}: more than {MAX_ARRIVALS} pods would be needed for the load asked for; expected a lower load or larger pods"
    )]
    TooLong {
        /// The trace's name.
        trace: String,
    },
}

/// Arrivals in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// Indices into the trace's pods; an index that comes again is a renamed copy.
    pub pods: Vec<usize>,
}

/// What the arrivals of a run are.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Arrivals {
    /// The published sequence at this load, see [`Sequence::tuned`].
    Published {
        /// GPU that arrives, as a multiple of the cluster's.
        load: f64,
    },
    /// Every pod of the trace once, in its order: to replay what arrived elsewhere.
    File,
}

impl Arrivals {
    /// The sequence in a cluster of `capacity_milli` thousandths of a GPU. The seed plays no part in a file's order.
    ///
    /// # Errors
    /// Those of [`Sequence::tuned`].
    pub fn sequence(
        self,
        trace: &Trace,
        capacity_milli: u64,
        seed: u64,
    ) -> Result<Sequence, SequenceError> {
        match self {
            Arrivals::Published { load } => {
                Sequence::tuned(trace, target_milli(capacity_milli, load), seed)
            }
            Arrivals::File => Ok(Sequence { pods: (0..trace.pods.len()).collect() }),
        }
    }
}

impl Sequence {
    /// Builds the sequence for one seed: `target_milli` thousandths of a GPU arrive in total (see [`target_milli`]).
    ///
    /// Below the target, pods are drawn uniformly with replacement from the whole trace and appended, until a draw's *per-device* request
    /// would pass it (not the request over all devices: a slip of the artifact that lets the sum overshoot by at most a pod less one device).
    /// Above the target, uniformly random pods are removed until the sum is no longer above it.
    ///
    /// # Errors
    /// See [`SequenceError`].
    pub fn tuned(trace: &Trace, target_milli: u64, seed: u64) -> Result<Sequence, SequenceError> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let _log_line_draw: u64 = rng.next_u64();
        let mut by_name: Vec<usize> = (0..trace.pods.len()).collect();
        by_name.sort_by(|&a, &b| trace.pods[a].name.cmp(&trace.pods[b].name));
        let mut pods = by_name.clone();
        pods.shuffle(&mut rng);
        let total: u64 = trace.pods.iter().map(|pod| pod.gpu_milli_total()).sum();
        if total > target_milli {
            thin(trace, &mut pods, total, target_milli, &mut rng);
        } else {
            resample(trace, &by_name, &mut pods, total, target_milli, &mut rng)?;
        }
        Ok(Sequence { pods })
    }
}

/// Thousandths of a GPU that arrive at `load` times a capacity, to the nearest one.
pub fn target_milli(capacity_milli: u64, load: f64) -> u64 {
    #[expect(
        clippy::cast_sign_loss,
        reason = "a float to integer cast saturates, and the load is positive"
    )]
    let target = (capacity_milli as f64 * load).round() as u64;
    target
}

fn resample(
    trace: &Trace,
    by_name: &[usize],
    pods: &mut Vec<usize>,
    mut total: u64,
    target: u64,
    rng: &mut ChaCha8Rng,
) -> Result<(), SequenceError> {
    if total == 0 {
        return Err(SequenceError::NoGpuRequests { trace: trace.name.clone() });
    }
    loop {
        let drawn = by_name[rng.random_range(0..by_name.len())];
        let pod = &trace.pods[drawn];
        if total + u64::from(pod.gpu_milli) > target {
            return Ok(());
        }
        if pods.len() == MAX_ARRIVALS {
            return Err(SequenceError::TooLong { trace: trace.name.clone() });
        }
        total += pod.gpu_milli_total();
        pods.push(drawn);
    }
}

fn thin(trace: &Trace, pods: &mut Vec<usize>, mut total: u64, target: u64, rng: &mut ChaCha8Rng) {
    let mut victims: Vec<usize> = (0..pods.len()).collect();
    victims.shuffle(rng);
    let mut kept = vec![true; pods.len()];
    for position in victims {
        if total <= target {
            break;
        }
        kept[position] = false;
        total -= trace.pods[pods[position]].gpu_milli_total();
    }
    let mut position = 0;
    pods.retain(|_| {
        position += 1;
        kept[position - 1]
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::PodSpec;
    use proptest::prelude::*;

    fn pod(name: usize, num_gpu: u8, gpu_milli: u16) -> PodSpec {
        PodSpec {
            name: format!("pod-{name:04}"),
            cpu_milli: 1000,
            memory_mib: 1,
            num_gpu,
            gpu_milli,
            gpu_spec: String::new(),
        }
    }

    fn traces() -> impl Strategy<Value = Trace> {
        let request =
            prop_oneof![Just((0u8, 0u16)), (Just(1u8), 1..=1000u16), (2..=8u8, Just(1000u16))];
        proptest::collection::vec(request, 1..60).prop_map(|requests| {
            let pods = requests
                .iter()
                .enumerate()
                .map(|(name, &(num_gpu, gpu_milli))| pod(name, num_gpu, gpu_milli))
                .collect();
            Trace { name: "t".into(), pods }
        })
    }

    fn total(trace: &Trace, pods: &[usize]) -> u64 {
        pods.iter().map(|&pod| trace.pods[pod].gpu_milli_total()).sum()
    }

    proptest! {
        #[test]
        fn the_sum_lands_on_the_target(trace in traces(), target in 1..200_000u64, seed: u64) {
            let original = total(&trace, &(0..trace.pods.len()).collect::<Vec<_>>());
            prop_assume!(original > 0);
            let largest = trace.pods.iter().map(PodSpec::gpu_milli_total).max().unwrap();
            let largest_device = trace.pods.iter().map(|pod| u64::from(pod.gpu_milli)).max().unwrap();
            let sequence = Sequence::tuned(&trace, target, seed).unwrap();
            let sum = total(&trace, &sequence.pods);
            if original > target {
                prop_assert!(sum <= target && sum + largest > target);
                let mut seen = sequence.pods.clone();
                seen.sort_unstable();
                seen.dedup();
                prop_assert_eq!(seen.len(), sequence.pods.len(), "thinning never repeats a pod");
            } else {
                prop_assert!(sum + largest_device > target, "stops only where the next pod would pass");
                prop_assert!(sum < target.max(original) + largest);
                let mut first: Vec<_> = sequence.pods[..trace.pods.len()].to_vec();
                first.sort_unstable();
                prop_assert_eq!(first, (0..trace.pods.len()).collect::<Vec<_>>(), "all originals come first, each once");
            }
        }

        #[test]
        fn a_seed_fixes_it_and_the_order_of_the_file_does_not_matter(trace in traces(), target in 1..50_000u64, seed: u64) {
            prop_assume!(trace.pods.iter().any(|pod| pod.num_gpu > 0));
            let names = |trace: &Trace| {
                Sequence::tuned(trace, target, seed).unwrap().pods.iter().map(|&pod| trace.pods[pod].name.clone()).collect::<Vec<_>>()
            };
            let mut reversed = trace.clone();
            reversed.pods.reverse();
            prop_assert_eq!(names(&trace), names(&reversed));
        }
    }

    #[test]
    fn the_order_of_a_file_is_kept() {
        let trace =
            Trace { name: "t".into(), pods: vec![pod(2, 1, 1000), pod(0, 0, 0), pod(1, 1, 300)] };
        for seed in 0..3 {
            let sequence = Arrivals::File.sequence(&trace, 10, seed).unwrap();
            assert_eq!(sequence.pods, [0, 1, 2], "neither sorted, nor thinned to the capacity");
        }
    }

    #[test]
    fn seeds_give_different_orders() {
        let trace =
            Trace { name: "t".into(), pods: (0..100).map(|name| pod(name, 1, 500)).collect() };
        let orders: std::collections::HashSet<_> =
            (42..52).map(|seed| Sequence::tuned(&trace, 80_000, seed).unwrap().pods).collect();
        assert_eq!(orders.len(), 10);
    }

    #[test]
    fn the_random_stream_has_not_changed() {
        let trace =
            Trace { name: "t".into(), pods: (0..8).map(|name| pod(name, 1, 500)).collect() };
        assert_eq!(
            Sequence::tuned(&trace, 6000, 42).unwrap().pods,
            [7, 2, 0, 6, 3, 5, 1, 4, 7, 6, 3, 2],
            "a new version of the generator changes every figure"
        );
    }

    #[test]
    fn a_trace_without_gpus_is_refused() {
        let trace = Trace { name: "cpu".into(), pods: vec![pod(0, 0, 0)] };
        assert_eq!(
            Sequence::tuned(&trace, 1000, 1),
            Err(SequenceError::NoGpuRequests { trace: "cpu".into() })
        );
    }

    #[test]
    fn the_published_target() {
        assert_eq!(target_milli(6_212_000, 1.3), 8_075_600);
    }
}
