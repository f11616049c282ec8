//! Published results to compare with: a CSV file with a row per trace and policy and columns such as `alloc_100_mean`.

use std::path::Path;

use crate::pack::{Mean, MeanSd};
use crate::trace::TraceError;
use crate::trace::table::{Column, Row, Table};

/// Policies must agree with published figures to this many points, or to three standard errors if that is more.
const TOLERANCE: f64 = 0.6;
/// The same for Fragmentation Gradient Descent, which the others are judged by.
const FGD_TOLERANCE: f64 = 0.3;
const FGD: &str = "06-FGD";

/// Published allocation of one trace under one policy, in %.
#[derive(Clone, PartialEq, Debug)]
pub struct PublishedRow {
    /// Name of the trace, without what all file names have in common.
    pub trace: String,
    /// Name of the policy in the publication.
    pub policy: String,
    /// Number of runs.
    pub seeds: u32,
    /// At 100 % of arrived load.
    pub alloc_100: MeanSd,
    /// At 130 % of arrived load.
    pub alloc_130: MeanSd,
}

/// All published results.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Published(Vec<PublishedRow>);

/// Published results and what ours are to be compared with.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Comparison<'p> {
    /// The published results.
    pub results: &'p Published,
    /// Whether our runs follow the published rules (ties by rank, mix of the trace). Then each policy that was published is to agree
    /// with its own figures; otherwise every policy is compared with FGD's.
    pub reproduces: bool,
}

/// How one mean of ours compares with the published one, in points.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Difference {
    /// The published mean.
    pub published: f64,
    /// Ours minus the published one.
    pub points: f64,
    /// Largest difference that counts as agreement.
    pub tolerance: f64,
}

impl Difference {
    /// Whether the two agree.
    pub fn agrees(&self) -> bool {
        self.points.abs() <= self.tolerance
    }
}

impl Published {
    /// Reads `trace,policy,n_seeds` and `alloc_100_mean,alloc_100_sd,alloc_130_mean,alloc_130_sd`; other columns are not used.
    ///
    /// # Errors
    /// Names the file, line and column of the first fault.
    pub fn read(file: &Path) -> Result<Published, TraceError> {
        let table = Table::open(file)?;
        let [trace, policy, seeds, mean_100, sd_100, mean_130, sd_130] = table.required([
            "trace",
            "policy",
            "n_seeds",
            "alloc_100_mean",
            "alloc_100_sd",
            "alloc_130_mean",
            "alloc_130_sd",
        ])?;
        let mut rows = Vec::new();
        table.for_each_row(|row| {
            rows.push(PublishedRow {
                trace: row.name(trace)?.to_owned(),
                policy: row.name(policy)?.to_owned(),
                seeds: row.integer(seeds, 1..=1_000_000, "number of runs")?,
                alloc_100: mean_sd(row, mean_100, sd_100)?,
                alloc_130: mean_sd(row, mean_130, sd_130)?,
            });
            Ok(())
        })?;
        if rows.is_empty() {
            return Err(TraceError::NoRows { file: file.to_owned(), rows: "results" });
        }
        Ok(Published(rows))
    }

    /// The row of a trace and a policy by its published name. A trace file may have a prefix that ends in `_`.
    pub fn row(&self, trace: &str, policy: &str) -> Option<&PublishedRow> {
        let same = |known: &str| {
            trace.strip_suffix(known).is_some_and(|rest| rest.is_empty() || rest.ends_with('_'))
        };
        self.0.iter().find(|row| row.policy == policy && same(&row.trace))
    }

    /// FGD's row of a trace: what every policy is to beat.
    pub fn fgd(&self, trace: &str) -> Option<&PublishedRow> {
        self.row(trace, FGD)
    }

    /// Our mean beside the published one of the same policy at 100 % and at 130 %; none where either is missing.
    pub fn compare(&self, mean: &Mean) -> Option<[Difference; 2]> {
        let row = self.row(&mean.trace, mean.policy.published_name()?)?;
        let floor = if row.policy == FGD { FGD_TOLERANCE } else { TOLERANCE };
        let seeds = (mean.seeds as f64, f64::from(row.seeds));
        let difference = |own: MeanSd, published: MeanSd| Difference {
            published: published.mean,
            points: own.mean - published.mean,
            tolerance: floor
                .max(3.0 * (own.sd.powi(2) / seeds.0 + published.sd.powi(2) / seeds.1).sqrt()),
        };
        Some([
            difference(mean.alloc_100?, row.alloc_100),
            difference(mean.alloc_130?, row.alloc_130),
        ])
    }
}

impl<'p> Comparison<'p> {
    /// Our mean beside the published one of the same policy, where the two are to agree.
    pub fn own(&self, mean: &Mean) -> Option<[Difference; 2]> {
        self.results.compare(mean).filter(|_| self.reproduces)
    }

    /// What a mean of ours is compared with.
    pub fn baseline(&self, mean: &Mean) -> Option<&'p PublishedRow> {
        let own = mean.policy.published_name().filter(|_| self.reproduces);
        own.and_then(|name| self.results.row(&mean.trace, name))
            .or_else(|| self.results.fgd(&mean.trace))
    }
}

fn mean_sd(row: &Row<'_>, mean: Column, sd: Column) -> Result<MeanSd, TraceError> {
    Ok(MeanSd {
        mean: row.number(mean, 0.0..=100.0, "mean allocation in %")?,
        sd: row.number(sd, 0.0..=100.0, "its standard deviation")?,
    })
}
