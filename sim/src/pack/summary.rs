//! Means over seeds.

use super::{Accepted, Policy, Run};
use crate::columns::Column;

/// Mean and sample standard deviation (n - 1; 0 for one value).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MeanSd {
    /// The mean.
    pub mean: f64,
    /// The standard deviation of single values, not of the mean.
    pub sd: f64,
}

impl MeanSd {
    /// Of some values; none without a value.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<MeanSd> {
        let values: Vec<f64> = values.into_iter().collect();
        if values.is_empty() {
            return None;
        }
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let sd = if values.len() > 1 { (squares / (count - 1.0)).sqrt() } else { 0.0 };
        Some(MeanSd { mean, sd })
    }
}

/// One trace under one policy, over all seeds.
#[derive(Clone, PartialEq, Debug)]
pub struct Mean {
    /// Name of the trace.
    pub trace: String,
    /// The policy.
    pub policy: Policy,
    /// Number of seeds.
    pub seeds: usize,
    /// Mean columns from 0 % of arrived load on; none where some seed has none.
    pub columns: Vec<Option<Column>>,
    /// Allocation in % at 100 % of arrived load.
    pub alloc_100: Option<MeanSd>,
    /// Allocation in % at 130 % of arrived load.
    pub alloc_130: Option<MeanSd>,
    /// Requests of 8-GPU pods, pooled over the seeds.
    pub eight_gpu: Accepted,
    /// Requests of constrained pods, pooled over the seeds.
    pub constrained: Accepted,
    /// Mean time in the kernel per arriving pod, microseconds.
    pub us_per_pod: f64,
}

impl Mean {
    /// The mean column at `percent` of arrived load, if the load reaches it.
    pub fn column(&self, percent: usize) -> Option<Column> {
        self.columns.get(percent).copied().flatten()
    }
}

/// Groups runs that follow each other with the same trace and policy.
pub fn means(runs: &[Run]) -> Vec<Mean> {
    runs.chunk_by(|a, b| a.trace == b.trace && a.policy == b.policy).map(mean).collect()
}

fn mean(runs: &[Run]) -> Mean {
    let alloc = |percent: usize| {
        let values = runs.iter().map(|run| run.column(percent).map(|column| column.alloc));
        values.collect::<Option<Vec<f64>>>().and_then(MeanSd::of)
    };
    let pooled = |of: fn(&Run) -> Accepted| Accepted {
        requested_milli: runs.iter().map(|run| of(run).requested_milli).sum(),
        placed_milli: runs.iter().map(|run| of(run).placed_milli).sum(),
    };
    Mean {
        trace: runs[0].trace.clone(),
        policy: runs[0].policy,
        seeds: runs.len(),
        columns: mean_columns(runs),
        alloc_100: alloc(100),
        alloc_130: alloc(130),
        eight_gpu: pooled(|run| run.eight_gpu),
        constrained: pooled(|run| run.constrained),
        us_per_pod: runs.iter().map(|run| run.us_per_pod).sum::<f64>() / runs.len() as f64,
    }
}

fn mean_columns(runs: &[Run]) -> Vec<Option<Column>> {
    let length = runs.iter().map(|run| run.columns.len()).max().unwrap_or(0);
    let count = runs.len() as f64;
    let mean = |percent: usize| {
        let mut sum = Column::default();
        for run in runs {
            let column = run.column(percent)?;
            sum.alloc += column.alloc / count;
            sum.frag_amount += column.frag_amount / count;
            sum.frag_ratio += column.frag_ratio / count;
        }
        Some(sum)
    };
    (0..length).map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_standard_deviation() {
        let of = MeanSd::of([2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert!((of.mean - 5.0).abs() < 1e-12);
        assert!((of.sd - (32.0f64 / 7.0).sqrt()).abs() < 1e-12);
        assert_eq!(MeanSd::of([3.0]), Some(MeanSd { mean: 3.0, sd: 0.0 }));
        assert_eq!(MeanSd::of([]), None);
    }
}
