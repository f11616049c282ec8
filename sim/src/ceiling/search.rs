//! Finds prices that make the bound small, by cutting planes: a linear program over the prices knows some patterns of
//! devices; each round its prices are evaluated with all patterns, and the dearest ones become new constraints.

use std::collections::BTreeSet;

use microlp::{ComparisonOp, LinearExpr, OptimizationDirection, Problem, Solution, Variable};

use super::instance::Instance;
use super::prices::{Bound, CPU_BITS, PRICE_BITS, Pattern, Prices, bound};

/// Most rounds; more bring nothing that shows in the second decimal.
const MAX_ROUNDS: usize = 150;
/// Stop when the linear program proves that the best bound is within this share of the least.
const CLOSE_ENOUGH: f64 = 5e-5;
/// Share of the best prices so far in the prices that are evaluated: keeps the rounds from jumping about.
const MEMORY: f64 = 0.6;
/// Largest price of one pod, and of the CPU of a whole class, in devices; only keeps the linear program bounded.
const LARGEST_PRICE: f64 = 30.0;

/// The least bound found, in thousandths of a GPU, rounded up.
pub(super) fn least_bound(instance: &Instance) -> u64 {
    let mut best_prices = Point::worth(instance);
    let mut first = bound(instance, &best_prices.fixed());
    let mut least = first.value;
    let mut program = Program::new(instance);
    for pattern in first.patterns.drain(..) {
        program.know(pattern);
    }
    for _ in 0..MAX_ROUNDS {
        let Some((lowest, outer)) = program.solve() else { break };
        if lowest >= devices(least) * (1.0 - CLOSE_ENOUGH) {
            break;
        }
        let mut news = false;
        for point in [outer.towards(&best_prices, MEMORY), outer] {
            let Bound { value, patterns } = bound(instance, &point.fixed());
            for pattern in patterns {
                news |= program.know(pattern);
            }
            if value < least {
                (least, best_prices) = (value, point);
            }
        }
        if !news {
            break;
        }
    }
    u64::try_from(((least >> PRICE_BITS) + 1).max(0)).unwrap_or(u64::MAX)
}

fn devices(value: i128) -> f64 {
    value as f64 / f64::from(1000u32 << PRICE_BITS)
}

/// Prices in devices: per pod, and per thousandth of a core.
#[derive(Clone)]
struct Point {
    pods: Vec<f64>,
    cpu: Vec<f64>,
}

impl Point {
    /// Every pod at what it asks for, CPU at nothing.
    fn worth(instance: &Instance) -> Point {
        let pods = instance.kinds.iter().map(|kind| kind.devices()).collect();
        Point { pods, cpu: vec![0.0; instance.classes.len()] }
    }

    fn towards(&self, other: &Point, share: f64) -> Point {
        let blend = |own: &[f64], other: &[f64]| {
            own.iter().zip(other).map(|(a, b)| a + share * (b - a)).collect()
        };
        Point { pods: blend(&self.pods, &other.pods), cpu: blend(&self.cpu, &other.cpu) }
    }

    fn fixed(&self) -> Prices {
        let milli = 1000.0 * f64::from(1u32 << PRICE_BITS);
        let finer = f64::from(1u32 << CPU_BITS);
        Prices {
            pods: self.pods.iter().map(|price| (price * milli).round() as i64).collect(),
            cpu: self
                .cpu
                .iter()
                .map(|price| (price.max(0.0) * milli * finer).round() as i64)
                .collect(),
        }
    }
}

/// The linear program: least sum of D_c u_c, l_c CPU_c and the terms of the kinds, where no known pattern is worth more
/// than u_c. A pod's price is its worth - p + q with p, q >= 0, which cost hi p - lo q; CPU prices are per class.
struct Program<'i> {
    instance: &'i Instance,
    problem: Problem,
    lower: Vec<Variable>,
    raise: Vec<Variable>,
    cpu: Vec<Variable>,
    device: Vec<Variable>,
    known: BTreeSet<Pattern>,
}

impl<'i> Program<'i> {
    fn new(instance: &'i Instance) -> Program<'i> {
        let mut problem = Problem::new(OptimizationDirection::Minimize);
        let mut price = |cost: f64| problem.add_var(cost, (0.0, LARGEST_PRICE));
        // Pods without a GPU are worth nothing and only raise their price, against the CPU's.
        let lower: Vec<Variable> =
            instance.kinds.iter().map(|kind| price(kind.at_most as f64)).collect();
        let raise: Vec<Variable> =
            instance.kinds.iter().map(|kind| price(-(kind.at_least as f64))).collect();
        let cpu: Vec<Variable> = instance.classes.iter().map(|_| price(1.0)).collect();
        let device: Vec<Variable> =
            instance.classes.iter().map(|class| price(class.devices as f64)).collect();
        for (index, kind) in instance.kinds.iter().enumerate().filter(|(_, kind)| kind.num_gpu == 0)
        {
            for &class in &kind.classes {
                let cost = kind.cpu_milli as f64 / instance.classes[class].cpu_milli.max(1) as f64;
                problem.add_constraint(
                    [(raise[index], 1.0), (cpu[class], -cost)],
                    ComparisonOp::Le,
                    0.0,
                );
            }
        }
        Program { instance, problem, lower, raise, cpu, device, known: BTreeSet::new() }
    }

    /// Adds the constraint of a pattern; false if it was known.
    fn know(&mut self, pattern: Pattern) -> bool {
        let class = pattern.class;
        let class_cpu = self.instance.classes[class].cpu_milli.max(1) as f64;
        let mut expression = LinearExpr::empty();
        let (mut worth, mut cpu) = (0.0, 0.0);
        for &(index, count) in &pattern.parts {
            let kind = &self.instance.kinds[index];
            let pods = count as f64 / f64::from(kind.num_gpu);
            worth += pods * kind.devices();
            cpu += pods * kind.cpu_milli as f64 / class_cpu;
            expression.add(self.lower[index], -pods);
            expression.add(self.raise[index], pods);
        }
        expression.add(self.cpu[class], -cpu);
        expression.add(self.device[class], -1.0);
        if !self.known.insert(pattern) {
            return false;
        }
        self.problem.add_constraint(expression, ComparisonOp::Le, -worth);
        true
    }

    /// The least sum with the known patterns, in devices (no prices have a lower bound), and its prices.
    fn solve(&self) -> Option<(f64, Point)> {
        let solution: Solution = self.problem.solve().ok()?.into_solution().ok()?;
        let kinds = self.instance.kinds.iter().enumerate();
        let pods = kinds.map(|(index, kind)| {
            kind.devices() - solution.var_value(self.lower[index])
                + solution.var_value(self.raise[index])
        });
        let classes = self.instance.classes.iter().zip(&self.cpu);
        let cpu = classes
            .map(|(class, &price)| solution.var_value(price) / class.cpu_milli.max(1) as f64);
        Some((solution.objective(), Point { pods: pods.collect(), cpu: cpu.collect() }))
    }
}
