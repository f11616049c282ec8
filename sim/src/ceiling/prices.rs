//! The bound for given prices, in integers, and its slope in each price.

use super::instance::Instance;

/// Binary digits of prices below one thousandth of a GPU (and per thousandth of a core).
pub(super) const PRICE_BITS: u32 = 12;
/// Binary digits of CPU prices beyond [`PRICE_BITS`].
pub(super) const CPU_BITS: u32 = 20;

/// Prices: `pods` per pod in 2^-12 thousandths of a GPU, `cpu` per thousandth of a core in 2^-32 thousandths of a GPU.
#[derive(Clone)]
pub(super) struct Prices {
    pub(super) pods: Vec<i64>,
    pub(super) cpu: Vec<i64>,
}

/// The bound in 2^-12 thousandths of a GPU, and what one more unit of each price adds to it: supply minus demand.
pub(super) struct Bound {
    pub(super) value: i128,
    pub(super) pod_slopes: Vec<f64>,
    pub(super) cpu_slopes: Vec<f64>,
}

/// Evaluates the bound of the module documentation. `prices.cpu` must not be negative; prices of pods without GPUs are
/// not read.
pub(super) fn bound(instance: &Instance, prices: &Prices) -> Bound {
    let mut bound = Bound {
        value: 0,
        pod_slopes: vec![0.0; instance.kinds.len()],
        cpu_slopes: instance.classes.iter().map(|class| class.cpu_milli as f64).collect(),
    };
    for (class, &price) in instance.classes.iter().zip(&prices.cpu) {
        let cost = i128::from(price) * i128::from(class.cpu_milli);
        bound.value += (cost >> CPU_BITS) + 1;
    }
    for class in 0..instance.classes.len() {
        add_class(instance, prices, class, &mut bound);
    }
    for kind in 0..instance.kinds.len() {
        add_kind(instance, prices, kind, &mut bound);
    }
    bound
}

/// floor(l_c cpu_k), or less where that is out of range: less is safe.
fn cpu_cost(price: i64, cpu_milli: i64) -> i64 {
    let cost = i128::from(price) * i128::from(cpu_milli) >> CPU_BITS;
    i64::try_from(cost).unwrap_or(i64::MAX).min(1 << 50)
}

/// \[1\], and for pods without GPUs their part of \[2\].
fn add_kind(instance: &Instance, prices: &Prices, index: usize, bound: &mut Bound) {
    let kind = &instance.kinds[index];
    if kind.num_gpu == 0 {
        let cost = |&class: &usize| (cpu_cost(prices.cpu[class], kind.cpu_milli), class);
        let Some((price, class)) = kind.classes.iter().map(cost).min() else { return };
        bound.value -= i128::from(price) * i128::from(kind.at_least);
        bound.cpu_slopes[class] -= (kind.cpu_milli * kind.at_least) as f64;
        return;
    }
    let worth = i64::from(kind.num_gpu) * i64::from(kind.gpu_milli) << PRICE_BITS;
    let excess = worth - prices.pods[index];
    let count = if excess >= 0 { kind.at_most } else { kind.at_least };
    bound.value += i128::from(excess) * i128::from(count);
    bound.pod_slopes[index] -= count as f64;
}

/// \[2\] of one class: its devices times the best that one of them can hold.
fn add_class(instance: &Instance, prices: &Prices, class: usize, bound: &mut Bound) {
    let devices = instance.classes[class].devices;
    if devices == 0 {
        return;
    }
    let cells = usize::from(1000 / instance.unit);
    // The dearest kind of every share; the last entry is for whole devices.
    let mut dearest: Vec<(i64, usize)> = vec![(0, usize::MAX); cells + 1];
    for (index, kind) in instance.kinds.iter().enumerate() {
        if kind.num_gpu == 0 || !kind.classes.contains(&class) {
            continue;
        }
        let net = prices.pods[index] - cpu_cost(prices.cpu[class], kind.cpu_milli);
        let per_device = net.div_euclid(i64::from(kind.num_gpu))
            + i64::from(net.rem_euclid(i64::from(kind.num_gpu)) > 0);
        let cell = usize::from(kind.gpu_milli / instance.unit);
        if per_device > dearest[cell].0 {
            dearest[cell] = (per_device, index);
        }
    }
    let (value, pattern) = knapsack(&dearest);
    bound.value += i128::from(value) * i128::from(devices);
    for (index, count) in pattern {
        let kind = &instance.kinds[index];
        let pods = (devices * count) as f64 / f64::from(kind.num_gpu);
        bound.pod_slopes[index] += pods;
        bound.cpu_slopes[class] -= pods * kind.cpu_milli as f64;
    }
}

/// The most that parts of these sizes (index = size, value, name) are worth within the size of the last entry, and the
/// names with their numbers.
fn knapsack(parts: &[(i64, usize)]) -> (i64, Vec<(usize, i64)>) {
    let items: Vec<(usize, i64, usize)> = parts
        .iter()
        .enumerate()
        .filter(|&(size, &(value, _))| size > 0 && value > 0)
        .map(|(size, &(value, name))| (size, value, name))
        .collect();
    let mut best: Vec<(i64, usize)> = vec![(0, usize::MAX); parts.len()];
    for room in 1..parts.len() {
        best[room] = (best[room - 1].0, usize::MAX);
        for (position, &(size, value, _)) in items.iter().enumerate() {
            if size <= room && best[room - size].0 + value > best[room].0 {
                best[room] = (best[room - size].0 + value, position);
            }
        }
    }
    let mut counts = vec![0; items.len()];
    let mut room = parts.len() - 1;
    while room > 0 {
        match best[room].1 {
            usize::MAX => room -= 1,
            position => {
                counts[position] += 1;
                room -= items[position].0;
            }
        }
    }
    let pattern = items.iter().zip(counts).filter(|&(_, count)| count > 0);
    (best[parts.len() - 1].0, pattern.map(|(&(.., name), count)| (name, count)).collect())
}

#[cfg(test)]
mod tests {
    use super::knapsack;

    #[test]
    fn knapsack_finds_the_best_pattern() {
        // sizes 3 (worth 5) and 4 (worth 7) in 10: 3 + 3 + 4 = 17 beats 4 + 4 = 14
        let parts: Vec<(i64, usize)> = (0..=10)
            .map(|size| match size {
                3 => (5, 33),
                4 => (7, 44),
                _ => (0, usize::MAX),
            })
            .collect();
        assert_eq!(knapsack(&parts), (17, vec![(33, 2), (44, 1)]));
    }
}
