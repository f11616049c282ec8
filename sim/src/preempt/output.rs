//! Results as a table and as JSON.

use std::io::{self, Write};

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;

use super::measure::Run;
use super::summary::{Comparison, Mean, Ratio};

#[derive(Serialize)]
struct Document {
    means: Vec<Row>,
    ratios: Vec<RatioRow>,
    runs: Vec<RunRow>,
}

#[derive(Serialize)]
struct Row {
    policy: &'static str,
    lost_gpu_hours: f64,
    evictions: f64,
    tier1_evictions: f64,
    max_unsaved_evictions: u32,
    evicted_per_requested: f64,
    tier0_wait_p50_s: f64,
    tier0_wait_p99_s: f64,
    jct_mean_s: f64,
    jct_p99_s: f64,
    goodput: f64,
    utilisation: f64,
    gangs_broken: u64,
    plan_us_p50: f64,
    plan_us_p99: f64,
}

#[derive(Serialize)]
struct RunRow {
    seed: u64,
    #[serde(flatten)]
    row: Row,
}

#[derive(Serialize)]
struct RatioRow {
    policy: &'static str,
    baseline: &'static str,
    lost_gpu_hours: f64,
    lost_gpu_hours_half_width: Option<f64>,
    tier1_evictions: f64,
    tier1_evictions_half_width: Option<f64>,
    jct_mean: f64,
    jct_mean_half_width: Option<f64>,
}

fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

impl Row {
    fn of(run: &Run, evictions: f64, tier1_evictions: f64, gangs_broken: u64) -> Self {
        Self {
            policy: run.policy.name(),
            lost_gpu_hours: rounded(run.lost_gpu_hours),
            evictions: rounded(evictions),
            tier1_evictions: rounded(tier1_evictions),
            max_unsaved_evictions: run.max_unsaved_evictions,
            evicted_per_requested: rounded(run.evicted_per_requested),
            tier0_wait_p50_s: rounded(run.tier0_wait_p50_seconds),
            tier0_wait_p99_s: rounded(run.tier0_wait_p99_seconds),
            jct_mean_s: rounded(run.jct_mean_seconds),
            jct_p99_s: rounded(run.jct_p99_seconds),
            goodput: rounded(run.goodput),
            utilisation: rounded(run.utilisation),
            gangs_broken,
            plan_us_p50: rounded(run.plan_us_p50),
            plan_us_p99: rounded(run.plan_us_p99),
        }
    }
}

/// Writes `{"means": [...], "ratios": [...], "runs": [...]}`; ratios are per seed against the baseline.
///
/// # Errors
/// Those of `out`.
pub fn write_json(
    out: &mut dyn Write,
    runs: &[Run],
    means: &[Mean],
    comparisons: &[Comparison],
) -> io::Result<()> {
    let width = |ratio: Ratio| ratio.half_width.map(rounded);
    let document = Document {
        means: means
            .iter()
            .map(|mean| Row::of(&mean.run, mean.evictions, mean.tier1_evictions, mean.gangs_broken))
            .collect(),
        ratios: comparisons
            .iter()
            .map(|row| RatioRow {
                policy: row.policy.name(),
                baseline: row.baseline.name(),
                lost_gpu_hours: rounded(row.lost.mean),
                lost_gpu_hours_half_width: width(row.lost),
                tier1_evictions: rounded(row.tier1_evictions.mean),
                tier1_evictions_half_width: width(row.tier1_evictions),
                jct_mean: rounded(row.completion.mean),
                jct_mean_half_width: width(row.completion),
            })
            .collect(),
        runs: runs
            .iter()
            .map(|run| RunRow {
                seed: run.seed,
                row: Row::of(
                    run,
                    run.evictions as f64,
                    run.tier1_evictions as f64,
                    run.gangs_broken,
                ),
            })
            .collect(),
    };
    serde_json::to_writer_pretty(&mut *out, &document)?;
    writeln!(out)
}

const LEGEND: &str = "LOST: GPU-hours of work redone or spent on restarts. UNSAVED: most evictions of one job since it last saved. EV/REQ: GPUs \
evicted per GPU that inference asked for.\nWAIT: seconds until an inference pod has its GPUs. JCT: hours from submission to completion, unfinished \
jobs until the end. PLAN: microseconds.\nRatios are means over seeds against the baseline's run of the same seed, with their 95 % interval.";

/// Draws the means, and the ratios below.
pub fn render_table(means: &[Mean], comparisons: &[Comparison]) -> String {
    let mut rows = vec![];
    for mean in means {
        let run = &mean.run;
        rows.push(vec![
            run.policy.to_string(),
            format!("{:.0}", run.lost_gpu_hours),
            format!("{:.0}", mean.evictions),
            format!("{:.1}", mean.tier1_evictions),
            run.max_unsaved_evictions.to_string(),
            format!("{:.2}", run.evicted_per_requested),
            format!("{:.0} / {:.0}", run.tier0_wait_p50_seconds, run.tier0_wait_p99_seconds),
            format!("{:.2}", run.jct_mean_seconds / 3_600.0),
            format!("{:.1}", run.jct_p99_seconds / 3_600.0),
            format!("{:.2} %", run.goodput * 100.0),
            format!("{:.2} %", run.utilisation * 100.0),
            mean.gangs_broken.to_string(),
            format!("{:.0} / {:.0}", run.plan_us_p50, run.plan_us_p99),
        ]);
    }
    let header = [
        "POLICY",
        "LOST",
        "EVICTIONS",
        "TIER 1",
        "UNSAVED",
        "EV/REQ",
        "WAIT p50/p99",
        "JCT",
        "JCT p99",
        "GOODPUT",
        "IN USE",
        "BROKEN",
        "PLAN p50/p99",
    ];
    let mut text = draw(&header, rows);
    if let Some(first) = comparisons.first() {
        let title = format!("BESIDE {}", first.baseline);
        let rows = comparisons
            .iter()
            .map(|row| {
                let ratios = [row.lost, row.tier1_evictions, row.completion];
                let cells = ratios.iter().map(|&ratio| percent(ratio));
                [row.policy.to_string()].into_iter().chain(cells).collect()
            })
            .collect();
        text += "\n";
        text += &draw(&[title.as_str(), "LOST", "TIER 1", "JCT"], rows);
    }
    format!("{text}\n{LEGEND}\n")
}

fn percent(ratio: Ratio) -> String {
    match ratio.half_width {
        Some(width) => format!("{:.1} % ± {:.1}", ratio.mean * 100.0, width * 100.0),
        None => format!("{:.1} %", ratio.mean * 100.0),
    }
}

fn draw(header: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING);
    table.set_header(header.to_vec());
    rows.into_iter().for_each(|row| {
        table.add_row(row);
    });
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let lines: Vec<_> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n") + "\n"
}
