//! The bound for given prices, in integers, and the patterns of devices that give it.

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

/// What one device of a class holds: indices of kinds and how many parts of each.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pattern {
    pub(super) class: usize,
    pub(super) parts: Vec<(usize, i64)>,
}

/// The bound in 2^-12 thousandths of a GPU, and the dearest pattern of every class with devices.
pub(super) struct Bound {
    pub(super) value: i128,
    pub(super) patterns: Vec<Pattern>,
}

/// Evaluates the bound of the module documentation. `prices.cpu` must not be negative; prices of pods without GPUs are
/// not read.
pub(super) fn bound(instance: &Instance, prices: &Prices) -> Bound {
    let mut bound = Bound { value: 0, patterns: Vec::new() };
    for (class, &price) in instance.classes.iter().zip(&prices.cpu) {
        let cost = i128::from(price) * i128::from(class.cpu_milli);
        bound.value += (cost >> CPU_BITS) + 1;
    }
    for (index, class) in instance.classes.iter().enumerate().filter(|(_, class)| class.devices > 0)
    {
        let (value, parts) = dearest_pattern(instance, prices, index);
        bound.value += i128::from(value) * i128::from(class.devices);
        bound.patterns.push(Pattern { class: index, parts });
    }
    bound.value +=
        (0..instance.kinds.len()).map(|kind| kind_term(instance, prices, kind)).sum::<i128>();
    bound
}

/// floor(l_c cpu_k), or less where that is out of range: less is safe.
fn cpu_cost(price: i64, cpu_milli: i64) -> i64 {
    let cost = (i128::from(price) * i128::from(cpu_milli)) >> CPU_BITS;
    i64::try_from(cost).unwrap_or(i64::MAX).min(1 << 50)
}

/// \[1\], and for pods without GPUs their part of \[2\].
fn kind_term(instance: &Instance, prices: &Prices, index: usize) -> i128 {
    let kind = &instance.kinds[index];
    if kind.num_gpu == 0 {
        let cost = |&class: &usize| cpu_cost(prices.cpu[class], kind.cpu_milli);
        let price = kind.classes.iter().map(cost).min().unwrap_or(0);
        return -i128::from(price) * i128::from(kind.at_least);
    }
    let worth = (i64::from(kind.num_gpu) * i64::from(kind.gpu_milli)) << PRICE_BITS;
    let excess = worth - prices.pods[index];
    let count = if excess >= 0 { kind.at_most } else { kind.at_least };
    i128::from(excess) * i128::from(count)
}

/// u_c and what gives it.
fn dearest_pattern(instance: &Instance, prices: &Prices, class: usize) -> (i64, Vec<(usize, i64)>) {
    let cells = usize::from(1000 / instance.unit);
    // The dearest kind of every size of part; the last size is a whole device.
    let mut dearest: Vec<(i64, usize)> = vec![(0, usize::MAX); cells + 1];
    for (index, kind) in instance.kinds.iter().enumerate() {
        if kind.num_gpu == 0 || !kind.classes.contains(&class) {
            continue;
        }
        let net = prices.pods[index] - cpu_cost(prices.cpu[class], kind.cpu_milli);
        let devices = i64::from(kind.num_gpu);
        let rounded_up = net.div_euclid(devices) + i64::from(net.rem_euclid(devices) > 0);
        let size = usize::from(kind.gpu_milli / instance.unit);
        dearest[size] = dearest[size].max((rounded_up, index));
    }
    knapsack(&dearest)
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
