//! How many GPUs inference wants over time: requests per hour of a log, smoothed, scaled, repeated.

use std::path::Path;

use super::clock::parse_time;
use crate::trace::TraceError;
use crate::trace::table::Table;

const HOUR: i64 = 3_600;
/// Hours that are averaged around each.
const SMOOTHING_HOURS: usize = 5;

/// A repeating curve through one value per hour, `0.0..=1.0` between its least and its largest.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    hours: Vec<f64>,
}

/// Reads a request log: the column `gmt_create`.
///
/// # Errors
/// Names the file, line and column of the first fault.
pub fn read_requests(file: &Path) -> Result<Demand, TraceError> {
    let table = Table::open(file)?;
    let [created] = table.required(["gmt_create"])?;
    let mut times = Vec::new();
    table.for_each_row(|row| {
        let time = parse_time(row.text(created))
            .ok_or_else(|| row.bad(created, "a time such as 2024-11-15 16:57:50"))?;
        times.push(time);
        Ok(())
    })?;
    if times.is_empty() {
        return Err(TraceError::NoRows { file: file.to_owned(), rows: "requests" });
    }
    Ok(Demand::of_times(&times))
}

impl Demand {
    /// The curve of these request times. Whole days, from the midnight before the first.
    pub(super) fn of_times(times: &[i64]) -> Self {
        let first = times.iter().min().copied().unwrap_or(0).div_euclid(24 * HOUR) * 24 * HOUR;
        let last = times.iter().max().copied().unwrap_or(0);
        let days = (last - first) / (24 * HOUR) + 1;
        let mut counts = vec![0u32; days as usize * 24];
        for time in times {
            counts[((time - first) / HOUR) as usize] += 1;
        }
        let smooth: Vec<f64> = (0..counts.len()).map(|hour| around(&counts, hour)).collect();
        let least = smooth.iter().copied().fold(f64::INFINITY, f64::min);
        let most = smooth.iter().copied().fold(0.0, f64::max);
        let span = if most > least { most - least } else { 1.0 };
        Self { hours: smooth.into_iter().map(|value| (value - least) / span).collect() }
    }

    /// The level at a time, linear between the middles of the hours.
    pub fn level(&self, seconds: i64) -> f64 {
        let at = seconds - HOUR / 2;
        let len = self.hours.len() as i64;
        let hour = at.div_euclid(HOUR);
        let part = at.rem_euclid(HOUR) as f64 / HOUR as f64;
        let value = |hour: i64| self.hours[hour.rem_euclid(len) as usize];
        value(hour) * (1.0 - part) + value(hour + 1) * part
    }

    /// Hours until the curve repeats.
    pub fn hours(&self) -> usize {
        self.hours.len()
    }
}

/// Mean of the hours around `hour`, around the end of the log as well.
fn around(counts: &[u32], hour: usize) -> f64 {
    let len = counts.len();
    let half = SMOOTHING_HOURS / 2;
    let sum: u32 = (0..SMOOTHING_HOURS).map(|k| counts[(hour + len + k - half) % len]).sum();
    f64::from(sum) / SMOOTHING_HOURS as f64
}

#[cfg(test)]
mod tests {
    use super::{Demand, HOUR};

    #[test]
    fn the_curve_swings_between_nought_and_one_and_repeats() {
        let mut times = Vec::new();
        for hour in 0..72i64 {
            let requests = if hour % 24 < 12 { 1 } else { 9 };
            times.extend((0..requests).map(|k| hour * HOUR + k));
        }
        let demand = Demand::of_times(&times);
        assert_eq!(demand.hours(), 72);
        assert_eq!(demand.level(6 * HOUR), 0.0);
        assert_eq!(demand.level(18 * HOUR), 1.0);
        for at in [0, 5_000, 50_000, 100_000] {
            assert!((0.0..=1.0).contains(&demand.level(at)));
            assert_eq!(demand.level(at), demand.level(at + 72 * HOUR));
        }
    }

    #[test]
    fn a_flat_log_gives_a_flat_curve() {
        let demand = Demand::of_times(&[100, 200]);
        assert!(demand.level(0) <= 1.0);
    }
}
