//! A small cluster and a workload drawn with the proportions of a shared GPU cluster.

use mortise_sim::trace::{NodeSpec, PodSpec, Trace};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// 40 nodes, 208 GPUs.
pub(crate) fn nodes() -> Vec<NodeSpec> {
    let node = |index: usize, gpus: u8, cpu_milli: i64, model: &str| NodeSpec {
        name: format!("node-{index:03}"),
        cpu_milli,
        memory_mib: 400_000,
        gpus,
        model: model.to_owned(),
    };
    (0..40)
        .map(|index| match index % 5 {
            0..=2 => node(index, 8, 96_000, "G2"),
            3 => node(index, 1, 16_000, "T4"),
            _ => node(index, 1, 12_000, "P100"),
        })
        .collect()
}

/// 400 pods: CPU-only, shares, whole cards and a few large ones; every fifth GPU pod names its models if `constrained`.
pub(crate) fn trace(name: &str, constrained: bool) -> Trace {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let pods = (0..400)
        .map(|index| {
            let (num_gpu, gpu_milli) = match rng.random_range(0..100) {
                0..13 => (0, 0),
                13..50 => (1, [160, 230, 320, 470, 650, 810][rng.random_range(0..6)]),
                50..97 => (1, 1000),
                97..99 => (4, 1000),
                _ => (8, 1000),
            };
            let spec = if constrained && num_gpu == 1 && index % 5 == 0 { "G2|T4" } else { "" };
            PodSpec {
                name: format!("pod-{index:04}"),
                cpu_milli: [1_000, 4_000, 8_000, 11_000][rng.random_range(0..4)],
                memory_mib: [1_024, 8_192, 32_768][rng.random_range(0..3)],
                num_gpu,
                gpu_milli,
                gpu_spec: spec.to_owned(),
            }
        })
        .collect();
    Trace { name: name.to_owned(), pods }
}
