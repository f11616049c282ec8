//! The results as a table, JSON and a page.

use std::io::{self, Write};

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;

use super::{MigComparison, MigMean, MigSetup};
use crate::output::rounded;

const LEGEND: &str = "SLICES, REQUESTS: accepted of those that arrived, in %. INTERVAL: two standard errors over the seeds. REJECTED: slices rejected by \
expected-stranding,\nin % of what the best other policy of the mix rejects; DIFF: the difference in points of the slices asked for, paired by seed.";

/// Draws the means, and our policy beside the best other.
#[must_use]
pub fn render_mig_table(means: &[MigMean], comparisons: &[MigComparison]) -> String {
    let header = ["LOAD", "MIX", "POLICY", "SLICES", "INTERVAL", "REQUESTS", "CARDS", "µs/REQ"];
    let rows = means.iter().map(|mean| mean_row(mean).to_vec()).collect();
    let mut text = render(&header, 3, rows);
    if !comparisons.is_empty() {
        let header = ["LOAD", "MIX", "BEST OTHER", "REJECTED", "DIFF", "INTERVAL"];
        let mut rows: Vec<Vec<String>> = Vec::new();
        for group in comparisons.chunk_by(|a, b| a.load == b.load) {
            rows.extend(group.iter().map(|comparison| comparison_row(comparison).to_vec()));
            if let Some(mean) = mean_ratio(group) {
                let load = format!("{:.2}", group[0].load);
                let label = format!("mean of {}", group.len());
                rows.push(vec![load, label, String::new(), percent(mean)]);
            }
        }
        text = format!("{text}\n\n{}", render(&header, 3, rows));
    }
    format!("{text}\n\n{LEGEND}\n")
}

fn mean_row(mean: &MigMean) -> [String; 8] {
    let slices = mean.accepted_slices_ratio;
    [
        format!("{:.2}", mean.load),
        mean.mix.to_string(),
        mean.policy.to_string(),
        percent(slices.mean),
        percent(2.0 * slices.sd / (mean.seeds as f64).sqrt()),
        percent(mean.accepted_ratio),
        format!("{:.1}", mean.cards_used),
        format!("{:.1}", mean.us_per_request),
    ]
}

fn comparison_row(comparison: &MigComparison) -> [String; 6] {
    [
        format!("{:.2}", comparison.load),
        comparison.mix.to_string(),
        comparison.best_other.to_string(),
        comparison.rejected_ratio.map_or_else(|| "-".to_owned(), percent),
        format!("{:+.2}", 100.0 * comparison.difference),
        percent(comparison.interval),
    ]
}

/// Mean of the ratios over the mixes of one load.
fn mean_ratio(comparisons: &[MigComparison]) -> Option<f64> {
    let ratios: Option<Vec<f64>> = comparisons.iter().map(|c| c.rejected_ratio).collect();
    ratios.map(|ratios| ratios.iter().sum::<f64>() / ratios.len() as f64)
}

fn percent(ratio: f64) -> String {
    format!("{:.2}", 100.0 * ratio)
}

fn render(header: &[&str], text_columns: usize, rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING);
    table.set_header(header.to_vec());
    for mut row in rows {
        row.resize(header.len(), String::new());
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(text_columns) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

#[derive(Serialize)]
struct Document {
    means: Vec<MeanRow>,
    comparisons: Vec<ComparisonRow>,
}

#[derive(Serialize)]
struct MeanRow {
    mix: &'static str,
    load: f64,
    policy: &'static str,
    seeds: usize,
    accepted_ratio: f64,
    accepted_slices_ratio: f64,
    accepted_slices_ratio_sd: f64,
    cards_used: f64,
    us_per_request: f64,
}

#[derive(Serialize)]
struct ComparisonRow {
    mix: &'static str,
    load: f64,
    best_other: &'static str,
    rejected_slices_of_best_other: Option<f64>,
    rejected_difference: f64,
    rejected_difference_interval: f64,
}

/// Writes one JSON document; all shares are fractions of 1.
///
/// # Errors
/// Those of `out`.
pub fn write_mig_json(
    out: &mut dyn Write,
    means: &[MigMean],
    comparisons: &[MigComparison],
) -> io::Result<()> {
    let means = means.iter().map(|mean| MeanRow {
        mix: mean.mix.name,
        load: mean.load,
        policy: mean.policy.name(),
        seeds: mean.seeds,
        accepted_ratio: rounded(mean.accepted_ratio, 6),
        accepted_slices_ratio: rounded(mean.accepted_slices_ratio.mean, 6),
        accepted_slices_ratio_sd: rounded(mean.accepted_slices_ratio.sd, 6),
        cards_used: rounded(mean.cards_used, 3),
        us_per_request: rounded(mean.us_per_request, 3),
    });
    let comparisons = comparisons.iter().map(|comparison| ComparisonRow {
        mix: comparison.mix.name,
        load: comparison.load,
        best_other: comparison.best_other.name(),
        rejected_slices_of_best_other: comparison.rejected_ratio.map(|ratio| rounded(ratio, 6)),
        rejected_difference: rounded(comparison.difference, 6),
        rejected_difference_interval: rounded(comparison.interval, 6),
    });
    let document = Document { means: means.collect(), comparisons: comparisons.collect() };
    serde_json::to_writer_pretty(&mut *out, &document)?;
    writeln!(out)
}

const STYLE: &str = "body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem;color:#1d2430;background:#fff}\
h1{font-size:1.5rem}h2{font-size:1.1rem;margin-top:2rem}table{border-collapse:collapse;width:100%}\
th,td{padding:.25rem .6rem;text-align:right;border-bottom:1px solid #e3e6ea;white-space:nowrap}\
th:first-child,td:first-child,th:nth-child(2),td:nth-child(2){text-align:left}\
td.bar{width:45%}.bar i{display:block;height:.8rem;background:#9aa7b8;border-radius:2px}.ours i{background:#0a7d5a}.ours{font-weight:600}\
@media(prefers-color-scheme:dark){body{color:#e3e8ef;background:#14181f}th,td{border-color:#2c3440}}";

/// Writes one HTML page that needs nothing else: rejected slices as bars, by load and mix.
///
/// # Errors
/// Those of `out`.
pub fn write_mig_report(
    out: &mut dyn Write,
    setup: &MigSetup,
    means: &[MigMean],
    comparisons: &[MigComparison],
) -> io::Result<()> {
    write!(
        out,
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>MIG placement</title><style>{STYLE}</style>\n<h1>MIG placement on {} cards {}</h1>\n\
         <p>Rejected slices in % of those asked for; shorter is better. Requests arrive and leave, those that fit nowhere are lost; \
         the mix is learned. {} mean lives are measured after {} of warm-up.</p>\n",
        setup.cards,
        setup.model.name,
        setup.lives,
        super::WARM_UP_LIVES
    )?;
    let most = means.iter().map(|mean| 1.0 - mean.accepted_slices_ratio.mean).fold(1e-9, f64::max);
    for group in means.chunk_by(|a, b| a.load == b.load) {
        writeln!(
            out,
            "<h2>Load {:.2}</h2>\n<table><tr><th>Mix<th>Policy<th>Rejected %<th>± %<th class=\"bar\">",
            group[0].load
        )?;
        for mean in group {
            let rejected = 1.0 - mean.accepted_slices_ratio.mean;
            let ours = if mean.policy == Default::default() { " class=\"ours\"" } else { "" };
            let interval = 2.0 * mean.accepted_slices_ratio.sd / (mean.seeds as f64).sqrt();
            writeln!(
                out,
                "<tr{ours}><td>{}<td>{}<td>{}<td>{}<td class=\"bar\"><i style=\"width:{:.1}%\"></i>",
                mean.mix,
                mean.policy,
                percent(rejected),
                percent(interval),
                100.0 * rejected / most
            )?;
        }
        writeln!(out, "</table>")?;
        let own: Vec<MigComparison> =
            comparisons.iter().filter(|c| c.load == group[0].load).copied().collect();
        if let Some(ratio) = mean_ratio(&own) {
            writeln!(
                out,
                "<p>Averaged over the mixes, expected-stranding rejects {} % of what the best other policy of each mix rejects.</p>",
                percent(ratio)
            )?;
        }
    }
    writeln!(out, "</html>")
}
