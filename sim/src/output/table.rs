//! The means as a table.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};

use super::Results;
use crate::ceiling::Ceiling;
use crate::pack::{Mean, MeanSd, Policy};
use crate::published::{Comparison, Difference};

/// Draws the means, and the means over all traces where there are several. With published results, each policy stands beside its own
/// published figures (`!` marks a difference beyond the tolerance), or beside those of FGD if it has none.
pub fn render_table(results: &Results<'_>, published: Option<Comparison<'_>>) -> String {
    let Results { means, ceilings, .. } = *results;
    let mut table = Table::new();
    table.load_style(NOTHING);
    let mut header = vec![
        "TRACE",
        "POLICY",
        "ALLOC@100",
        "± SD",
        "ALLOC@130",
        "± SD",
        "FRAG@100",
        "RATIO@80",
        "8-GPU",
        "CONSTRAINED",
        "µs/POD",
    ];
    if !ceilings.is_empty() {
        header.push("CEILING");
    }
    if published.is_some() {
        header.extend(["PUBLISHED", "DIFF@100", "DIFF@130"]);
    }
    let columns = header.len();
    table.set_header(header);
    let mut last_trace = "";
    for mean in means {
        let name = if mean.trace == last_trace { "" } else { &mean.trace };
        last_trace = &mean.trace;
        let near = ceilings.iter().filter(|ceiling| ceiling.trace == mean.trace);
        let mut row = row(name, mean);
        push_ceiling(&mut row, ceilings, near);
        row.extend(published.map(|published| comparison(mean, published)).into_iter().flatten());
        table.add_row(row);
    }
    let traces = means.chunk_by(|a, b| a.trace == b.trace).count();
    if traces > 1 {
        table.add_row(vec![""; columns]);
        for (index, policy) in policies(means).into_iter().enumerate() {
            let name = if index == 0 { format!("mean of {traces} traces") } else { String::new() };
            let mut row = overall(&name, policy, means);
            push_ceiling(&mut row, ceilings, ceilings.iter());
            let own: Vec<&Mean> = means.iter().filter(|mean| mean.policy == policy).collect();
            row.extend(
                published
                    .map(|published| overall_comparison(&own, published))
                    .into_iter()
                    .flatten(),
            );
            table.add_row(row);
        }
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let lines: Vec<_> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    format!("{}\n\n{}\n", lines.join("\n"), LEGEND)
}

const LEGEND: &str = "All in %. ALLOC: GPU in use of the cluster's, at 100 % and 130 % of it arrived; SD over seeds. FRAG: fragment amount of the \
cluster's GPU.\nRATIO: fragment amount of the idle GPU at 80 %. 8-GPU, CONSTRAINED: GPUs placed of those asked for by 8-GPU pods and by pods that \
name models.";

/// The mean ceiling, if there are ceilings at all.
fn push_ceiling<'c>(
    row: &mut Vec<String>,
    all: &[Ceiling],
    some: impl Iterator<Item = &'c Ceiling>,
) {
    if !all.is_empty() {
        row.push(number(MeanSd::of(some.map(|ceiling| ceiling.alloc)).map(|over| over.mean)));
    }
}

fn row(name: &str, mean: &Mean) -> Vec<String> {
    let mut row = vec![name.to_owned(), mean.policy.to_string()];
    for alloc in [mean.alloc_100, mean.alloc_130] {
        row.push(number(alloc.map(|alloc| alloc.mean)));
        row.push(number(alloc.map(|alloc| alloc.sd)));
    }
    row.push(number(mean.column(100).map(|column| column.frag_amount)));
    row.push(number(mean.column(80).map(|column| column.frag_ratio)));
    row.push(number(mean.eight_gpu.percent()));
    row.push(number(mean.constrained.percent()));
    row.push(format!("{:.1}", mean.us_per_pod));
    row
}

fn comparison(mean: &Mean, published: Comparison<'_>) -> [String; 3] {
    if let Some(differences) = published.own(mean) {
        let cell = |difference: Difference| {
            format!("{:+.2}{}", difference.points, if difference.agrees() { " " } else { "!" })
        };
        return ["own".to_owned(), cell(differences[0]), cell(differences[1])];
    }
    let Some(fgd) = published.results.fgd(&mean.trace) else {
        return Default::default();
    };
    let gain = |own: Option<MeanSd>, theirs: MeanSd| {
        own.map_or_else(String::new, |own| format!("{:+.2} ", own.mean - theirs.mean))
    };
    ["FGD".to_owned(), gain(mean.alloc_100, fgd.alloc_100), gain(mean.alloc_130, fgd.alloc_130)]
}

fn policies(means: &[Mean]) -> Vec<Policy> {
    let mut policies = Vec::new();
    for mean in means {
        if !policies.contains(&mean.policy) {
            policies.push(mean.policy);
        }
    }
    policies
}

/// Means over traces of one policy's means; accepted shares are pooled.
fn overall(name: &str, policy: Policy, means: &[Mean]) -> Vec<String> {
    let own: Vec<&Mean> = means.iter().filter(|mean| mean.policy == policy).collect();
    let over = |of: &dyn Fn(&Mean) -> Option<f64>| {
        let values: Option<Vec<f64>> = own.iter().map(|mean| of(mean)).collect();
        values.and_then(MeanSd::of).map(|over| over.mean)
    };
    let pooled = |of: fn(&Mean) -> crate::pack::Accepted| {
        let (placed, requested) = own.iter().map(|mean| of(mean)).fold((0, 0), |sum, accepted| {
            (sum.0 + accepted.placed_milli, sum.1 + accepted.requested_milli)
        });
        crate::pack::Accepted { requested_milli: requested, placed_milli: placed }.percent()
    };
    let mut row = vec![name.to_owned(), policy.to_string()];
    for alloc in [(|mean| mean.alloc_100) as fn(&Mean) -> Option<MeanSd>, |mean| mean.alloc_130] {
        row.push(number(over(&|mean| alloc(mean).map(|alloc| alloc.mean))));
        row.push(String::new());
    }
    row.push(number(over(&|mean| mean.column(100).map(|column| column.frag_amount))));
    row.push(number(over(&|mean| mean.column(80).map(|column| column.frag_ratio))));
    row.push(number(pooled(|mean| mean.eight_gpu)));
    row.push(number(pooled(|mean| mean.constrained)));
    row.push(over(&|mean| Some(mean.us_per_pod)).map_or_else(String::new, |us| format!("{us:.1}")));
    row
}

fn overall_comparison(means: &[&Mean], published: Comparison<'_>) -> [String; 3] {
    let rows: Option<Vec<_>> = means
        .iter()
        .map(|mean| {
            let row = published.baseline(mean)?;
            Some((
                mean.alloc_100?.mean - row.alloc_100.mean,
                mean.alloc_130?.mean - row.alloc_130.mean,
            ))
        })
        .collect();
    let Some(rows) = rows else {
        return Default::default();
    };
    let mean = |values: Vec<f64>| {
        MeanSd::of(values).map_or_else(String::new, |over| format!("{:+.2} ", over.mean))
    };
    [
        String::new(),
        mean(rows.iter().map(|row| row.0).collect()),
        mean(rows.iter().map(|row| row.1).collect()),
    ]
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"))
}
