//! One row per run with the columns of the published summary.

use std::io::{self, Write};

use super::Results;
use crate::columns::Column;
use crate::pack::Run;

/// The arrived loads in % that have columns.
const LOADS: [usize; 7] = [80, 90, 95, 100, 110, 120, 130];

type Measure = fn(Column) -> f64;

const MEASURES: [(&str, Measure); 3] = [
    ("alloc", |column| column.alloc),
    ("frag_amount", |column| column.frag_amount),
    ("frag_ratio", |column| column.frag_ratio),
];

/// Writes a header and one row per run; figures that a run does not have are empty.
///
/// # Errors
/// Those of `out`.
pub fn write_csv(out: &mut dyn Write, results: &Results<'_>) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    let mut header: Vec<String> =
        ["trace", "policy", "seed", "pods", "rejected"].map(str::to_owned).into();
    for (name, _) in MEASURES {
        header.extend(LOADS.map(|load| format!("{name}_{load}")));
    }
    header.push("alloc_end".to_owned());
    header.extend(
        ["accepted_gpu", "accepted_8gpu", "accepted_constrained", "us_per_pod"].map(str::to_owned),
    );
    writer.write_record(&header)?;
    for run in results.runs {
        writer.write_record(row(run))?;
    }
    writer.flush()
}

fn row(run: &Run) -> Vec<String> {
    let mut row = vec![
        run.trace.clone(),
        run.policy.to_string(),
        run.seed.to_string(),
        run.pods.to_string(),
        run.rejected.to_string(),
    ];
    for (_, measure) in MEASURES {
        row.extend(LOADS.map(|load| number(run.column(load).map(measure))));
    }
    row.push(number(Some(run.alloc_end)));
    row.extend(
        [run.gpu, run.eight_gpu, run.constrained].map(|accepted| number(accepted.percent())),
    );
    row.push(format!("{:.3}", run.us_per_pod));
    row
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| format!("{value:.4}"))
}
