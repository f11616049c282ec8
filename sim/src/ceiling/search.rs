//! Finds prices that make the bound small: projected subgradient descent with a step per price (AdaGrad), started again
//! from the best point with smaller steps.

use super::instance::Instance;
use super::prices::{Bound, CPU_BITS, PRICE_BITS, Prices, bound};

/// Steps in thousandths of a GPU, and how many of each.
const PHASES: [(f64, usize); 6] =
    [(300.0, 400), (100.0, 400), (40.0, 400), (15.0, 400), (6.0, 400), (2.0, 400)];

/// Largest price in thousandths of a GPU; only keeps the arithmetic in range.
const LARGEST_PRICE: f64 = 1e6;

/// The least bound found, in thousandths of a GPU, rounded up.
pub(super) fn least_bound(instance: &Instance) -> u64 {
    let worth = |kind: &super::instance::Kind| f64::from(kind.num_gpu) * f64::from(kind.gpu_milli);
    let mut best = Point {
        pods: instance.kinds.iter().map(worth).collect(),
        cpu: vec![0.0; instance.classes.len()],
    };
    // Devices per thousandth of a core, so that a step means the same share of either.
    let devices: i64 = instance.classes.iter().map(|class| class.devices).sum();
    let cpu_milli: i64 = instance.classes.iter().map(|class| class.cpu_milli).sum();
    let gpu_per_cpu = devices as f64 / cpu_milli.max(1) as f64;
    let mut least = bound(instance, &best.prices()).value;
    for (step, rounds) in PHASES {
        let mut point = best.clone();
        let mut squares =
            Point { pods: vec![1.0; point.pods.len()], cpu: vec![1.0; point.cpu.len()] };
        for _ in 0..rounds {
            let here = bound(instance, &point.prices());
            if here.value < least {
                (least, best) = (here.value, point.clone());
            }
            point.descend(&mut squares, &here, step, step * gpu_per_cpu);
        }
    }
    let milli = (least >> PRICE_BITS) + 1;
    u64::try_from(milli.max(0)).unwrap_or(u64::MAX)
}

#[derive(Clone)]
struct Point {
    pods: Vec<f64>,
    cpu: Vec<f64>,
}

impl Point {
    fn prices(&self) -> Prices {
        let fixed = |value: &f64, bits: u32| (value * f64::from(1u32 << bits)).round() as i64;
        Prices {
            pods: self.pods.iter().map(|price| fixed(price, PRICE_BITS)).collect(),
            cpu: self
                .cpu
                .iter()
                .map(|price| (price * ((1u64 << (PRICE_BITS + CPU_BITS)) as f64)).round() as i64)
                .collect(),
        }
    }

    fn descend(&mut self, squares: &mut Point, bound: &Bound, step: f64, cpu_step: f64) {
        for ((price, square), slope) in
            self.pods.iter_mut().zip(&mut squares.pods).zip(&bound.pod_slopes)
        {
            *square += slope * slope;
            *price = (*price - step * slope / square.sqrt()).clamp(-LARGEST_PRICE, LARGEST_PRICE);
        }
        for ((price, square), slope) in
            self.cpu.iter_mut().zip(&mut squares.cpu).zip(&bound.cpu_slopes)
        {
            *square += slope * slope;
            *price = (*price - cpu_step * slope / square.sqrt()).clamp(0.0, LARGEST_PRICE);
        }
    }
}
