//! How likely a CPU-only pod takes CPU from a node with idle GPU: by the CPU slack of the cluster.
//!
//! The GPU pods still to come will fill the idle GPU R; with the mix's means that is R / gpu pods, which need
//! R cpu_gpu / gpu of the free CPU F, while the CPU-only pods among them want R cpu_only / gpu.
//! slack = (F - R cpu_gpu / gpu) / (R cpu_only / gpu): above 1.5 CPU-only pods find room elsewhere, below 1 they do not.

use super::mix::Mix;
use super::params::{CPU_ONLY_TAKE_PERMILLE, CPU_SLACK_TENTHS};

/// Probability in per mille that a drawn CPU-only pod takes its CPU; linear in the slack between the bounds of
/// [`CPU_SLACK_TENTHS`]. Products stay below 2^32 (weight) * 2^31 (CPU) * 2^48 (sum of CPU) < 2^112.
pub(super) fn take_permille(mix: &Mix, idle_milli: u64, cpu_milli: u64) -> u64 {
    let (mut gpu, mut cpu_gpu, mut cpu_only) = (0i128, 0i128, 0i128);
    for known in mix.kinds() {
        let weight = i128::from(known.weight);
        gpu += weight * i128::from(known.kind.gpu.total_milli());
        let cpu = weight * i128::from(known.kind.cpu.0);
        if known.kind.gpu.is_none() { cpu_only += cpu } else { cpu_gpu += cpu }
    }
    let (least, most) = CPU_ONLY_TAKE_PERMILLE;
    let (short, plenty) = CPU_SLACK_TENTHS;
    // slack = left / wanted.
    let wanted = i128::from(idle_milli) * cpu_only;
    let left = i128::from(cpu_milli) * gpu - i128::from(idle_milli) * cpu_gpu;
    if wanted == 0 {
        return least.unsigned_abs() as u64;
    }
    let below_plenty = (plenty * wanted - 10 * left).clamp(0, (plenty - short) * wanted);
    let permille = least + (most - least) * below_plenty / ((plenty - short) * wanted);
    permille.unsigned_abs() as u64
}
