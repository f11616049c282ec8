//! `{"runs": [...], "means": [...]}`; figures that a run does not have are null. With ceilings also
//! `"ceilings": [...]`.

use std::io::{self, Write};

use serde::Serialize;

use super::{Results, rounded};
use crate::ceiling::Ceiling;
use crate::pack::{Mean, MeanSd, Run};

#[derive(Serialize)]
struct Document<'a> {
    runs: Vec<RunRow<'a>>,
    means: Vec<MeanRow<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ceilings: Vec<CeilingRow<'a>>,
}

#[derive(Serialize)]
struct CeilingRow<'a> {
    trace: &'a str,
    seed: u64,
    accepted_until: f64,
    alloc: f64,
}

#[derive(Serialize)]
struct RunRow<'a> {
    trace: &'a str,
    policy: &'a str,
    seed: u64,
    alloc_100: Option<f64>,
    alloc_130: Option<f64>,
    frag_amount_100: Option<f64>,
    frag_ratio_80: Option<f64>,
    us_per_pod: f64,
}

#[derive(Serialize)]
struct MeanRow<'a> {
    trace: &'a str,
    policy: &'a str,
    alloc_100: Option<f64>,
    alloc_100_sd: Option<f64>,
    alloc_130: Option<f64>,
    alloc_130_sd: Option<f64>,
    accepted_8gpu: Option<f64>,
    accepted_constrained: Option<f64>,
    us_per_pod: f64,
}

/// Writes one JSON document: allocations, amounts, ratios and accepted shares in %, times in microseconds.
///
/// # Errors
/// Those of `out`.
pub fn write_json(out: &mut dyn Write, results: &Results<'_>) -> io::Result<()> {
    let document = Document {
        runs: results.runs.iter().map(RunRow::of).collect(),
        means: results.means.iter().map(MeanRow::of).collect(),
        ceilings: results.ceilings.iter().map(CeilingRow::of).collect(),
    };
    serde_json::to_writer_pretty(&mut *out, &document)?;
    writeln!(out)
}

fn percent(value: Option<f64>) -> Option<f64> {
    value.map(|value| rounded(value, 4))
}

impl<'a> RunRow<'a> {
    fn of(run: &'a Run) -> RunRow<'a> {
        RunRow {
            trace: &run.trace,
            policy: run.policy.name(),
            seed: run.seed,
            alloc_100: percent(run.column(100).map(|column| column.alloc)),
            alloc_130: percent(run.column(130).map(|column| column.alloc)),
            frag_amount_100: percent(run.column(100).map(|column| column.frag_amount)),
            frag_ratio_80: percent(run.column(80).map(|column| column.frag_ratio)),
            us_per_pod: rounded(run.us_per_pod, 3),
        }
    }
}

impl<'a> MeanRow<'a> {
    fn of(mean: &'a Mean) -> MeanRow<'a> {
        let value = |of: Option<MeanSd>| percent(of.map(|of| of.mean));
        let sd = |of: Option<MeanSd>| percent(of.map(|of| of.sd));
        MeanRow {
            trace: &mean.trace,
            policy: mean.policy.name(),
            alloc_100: value(mean.alloc_100),
            alloc_100_sd: sd(mean.alloc_100),
            alloc_130: value(mean.alloc_130),
            alloc_130_sd: sd(mean.alloc_130),
            accepted_8gpu: percent(mean.eight_gpu.percent()),
            accepted_constrained: percent(mean.constrained.percent()),
            us_per_pod: rounded(mean.us_per_pod, 3),
        }
    }
}

impl<'a> CeilingRow<'a> {
    fn of(ceiling: &'a Ceiling) -> CeilingRow<'a> {
        CeilingRow {
            trace: &ceiling.trace,
            seed: ceiling.seed,
            accepted_until: rounded(ceiling.accepted_until, 4),
            alloc: rounded(ceiling.alloc, 4),
        }
    }
}
