//! Results as text: a table for people, JSON and CSV for programs.

mod csv_rows;
mod json;
mod table;

pub use csv_rows::write_csv;
pub use json::write_json;
pub use table::render_table;

/// Rounds for output; enough digits that no comparison depends on it.
fn rounded(value: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (value * scale).round() / scale
}
