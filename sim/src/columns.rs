//! The published columns: samples after every arrival, gathered by the integer percentage of GPU that has arrived.
//!
//! A sample belongs to the column `round(100 * arrived / capacity)`, halves to the even column, so column 100 holds the arrivals from
//! 99.5 % to 100.5 %. A column without samples takes those of its two neighbours.

/// The state of the cluster after one arrival.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Thousandths of a GPU asked for so far, rejected pods included.
    pub arrived_milli: u64,
    /// Thousandths of a GPU in use.
    pub used_milli: u64,
    /// Fragment amount F of the cluster in thousandths of a GPU .
    pub fragment_milli: f64,
}

/// Means of the samples of one column, all in percent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Column {
    /// GPU in use, of the capacity.
    pub alloc: f64,
    /// Fragment amount, of the capacity.
    pub frag_amount: f64,
    /// Fragment amount, of the idle GPU.
    pub frag_ratio: f64,
}

/// Gathers samples into columns.
#[derive(Clone, Debug)]
pub struct Columns {
    capacity_milli: u64,
    sums: Vec<(u64, Column)>,
}

impl Columns {
    /// An empty record for a cluster of `capacity_milli` thousandths of a GPU (at least 1).
    pub fn new(capacity_milli: u64) -> Columns {
        assert!(capacity_milli > 0, "a cluster without GPUs has no columns");
        Columns { capacity_milli, sums: Vec::new() }
    }

    /// Adds the sample after one arrival.
    pub fn record(&mut self, sample: Sample) {
        let column = usize::try_from(round_half_even(
            100 * u128::from(sample.arrived_milli),
            self.capacity_milli,
        ))
        .unwrap_or(usize::MAX);
        if column >= self.sums.len() {
            self.sums.resize(column + 1, Default::default());
        }
        let (count, sum) = &mut self.sums[column];
        *count += 1;
        sum.alloc += round_half_even(10_000 * u128::from(sample.used_milli), self.capacity_milli)
            as f64
            / 100.0;
        sum.frag_amount += 100.0 * sample.fragment_milli / self.capacity_milli as f64;
        let idle = self.capacity_milli - sample.used_milli;
        if idle > 0 {
            sum.frag_ratio +=
                (10_000.0 * sample.fragment_milli / idle as f64).round_ties_even() / 100.0;
        }
    }

    /// The means of column `percent`, or none where neither it nor its neighbours have a sample.
    pub fn column(&self, percent: usize) -> Option<Column> {
        let own = percent..=percent;
        let near = percent.saturating_sub(1)..=percent + 1;
        [own, near].into_iter().find_map(|range| {
            let mut total = (0u64, Column::default());
            for (count, sum) in range.filter_map(|percent| self.sums.get(percent)) {
                total.0 += count;
                total.1.alloc += sum.alloc;
                total.1.frag_amount += sum.frag_amount;
                total.1.frag_ratio += sum.frag_ratio;
            }
            let (count, sum) = (total.0 as f64, total.1);
            (total.0 > 0).then(|| Column {
                alloc: sum.alloc / count,
                frag_amount: sum.frag_amount / count,
                frag_ratio: sum.frag_ratio / count,
            })
        })
    }

    /// Every column from 0 to the last with a sample.
    pub fn all(&self) -> Vec<Option<Column>> {
        (0..self.sums.len()).map(|percent| self.column(percent)).collect()
    }
}

/// `numerator / denominator` to the nearest integer, halves to the even one, as Python's `round`.
fn round_half_even(numerator: u128, denominator: u64) -> u128 {
    let denominator = u128::from(denominator);
    let (quotient, rest) = (numerator / denominator, numerator % denominator);
    match (2 * rest).cmp(&denominator) {
        std::cmp::Ordering::Less => quotient,
        std::cmp::Ordering::Greater => quotient + 1,
        std::cmp::Ordering::Equal => quotient + quotient % 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CAPACITY: u64 = 6_212_000;

    fn columns(samples: &[(u64, u64, f64)]) -> Columns {
        let mut columns = Columns::new(CAPACITY);
        for &(arrived_milli, used_milli, fragment_milli) in samples {
            columns.record(Sample { arrived_milli, used_milli, fragment_milli });
        }
        columns
    }

    #[test]
    fn halves_go_to_the_even_column() {
        let percent = CAPACITY / 100;
        assert!(columns(&[(percent * 199 / 2, 0, 0.0)]).sums.len() == 101, "99.5 -> 100");
        assert!(columns(&[(percent * 201 / 2, 0, 0.0)]).sums.len() == 101, "100.5 -> 100");
        assert!(columns(&[(percent * 197 / 2, 0, 0.0)]).sums.len() == 99, "98.5 -> 98");
        assert!(columns(&[(percent * 201 / 2 + 1, 0, 0.0)]).sums.len() == 102);
    }

    #[test]
    fn a_column_is_the_mean_of_its_samples() {
        let percent = CAPACITY / 100;
        let filled = columns(&[
            (80 * percent, 40 * percent, 1_000.0),
            (80 * percent + 1, 42 * percent, 3_000.0),
        ]);
        let column = filled.column(80).unwrap();
        assert!((column.alloc - 41.0).abs() < 1e-9);
        assert!((column.frag_amount - 100.0 * 2_000.0 / CAPACITY as f64).abs() < 1e-12);
        assert!(
            (column.frag_ratio - f64::midpoint(0.03, 0.08)).abs() < 1e-9,
            "rounded to two decimals before the mean: {}",
            column.frag_ratio
        );
    }

    #[test]
    fn an_empty_column_takes_its_neighbours() {
        let percent = CAPACITY / 100;
        let filled = columns(&[
            (10 * percent, 10 * percent, 0.0),
            (12 * percent, 12 * percent, 0.0),
            (20 * percent, 20 * percent, 0.0),
        ]);
        assert!((filled.column(11).unwrap().alloc - 11.0).abs() < 1e-9);
        assert!((filled.column(13).unwrap().alloc - 12.0).abs() < 1e-9);
        assert_eq!(filled.column(15), None);
        assert_eq!(filled.all().len(), 21);
    }

    #[test]
    fn a_full_cluster_has_no_fragments() {
        assert!(
            columns(&[(CAPACITY, CAPACITY, 0.0)]).column(100).unwrap().frag_ratio.abs() < 1e-12
        );
    }

    proptest! {
        #[test]
        fn rounding_agrees_with_floats_that_round_ties_to_even(numerator in 0..1u64 << 40, denominator in 1..1u64 << 20) {
            let exact = round_half_even(u128::from(numerator), denominator);
            prop_assert_eq!(exact as f64, (numerator as f64 / denominator as f64).round_ties_even());
        }
    }
}
