//! Results as text: a table for people, JSON and CSV for programs.

mod csv_rows;
mod json;
mod table;

pub use csv_rows::write_csv;
pub use json::write_json;
pub use table::render_table;

use crate::ceiling::Ceiling;
use crate::pack::{Mean, Run};

/// What an experiment found.
#[derive(Clone, Copy, Debug)]
pub struct Results<'a> {
    /// All runs: by trace, then policy, then seed.
    pub runs: &'a [Run],
    /// Their means: by trace, then policy.
    pub means: &'a [Mean],
    /// One per trace and seed, or none at all.
    pub ceilings: &'a [Ceiling],
}

/// Rounds for output; enough digits that no comparison depends on it.
pub(crate) fn rounded(value: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (value * scale).round() / scale
}
