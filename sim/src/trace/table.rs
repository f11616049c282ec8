//! A CSV file with a header, read row by row with errors that name the place.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// Why a trace file was refused. Lines count from 1, the header is line 1.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// Not there, no permission, or not a file.
    #[error("{}: the file cannot be read", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Not UTF-8, or quotes that do not match.
    #[error("{}:{line}: the line is not CSV: {problem}", file.display())]
    NotCsv {
        /// The file.
        file: PathBuf,
        /// The line.
        line: u64,
        /// What is wrong with it.
        problem: String,
    },
    /// A column that is needed is not in the header.
    #[error("{}:1: column {column} is missing from the header; expected the columns {expected} (found: {found})", file.display())]
    MissingColumn {
        /// The file.
        file: PathBuf,
        /// The column.
        column: &'static str,
        /// What was expected.
        expected: String,
        /// What was found.
        found: String,
    },
    /// A column name twice in the header.
    #[error("{}:1: column {column} appears twice in the header; expected each name once", file.display())]
    RepeatedColumn {
        /// The file.
        file: PathBuf,
        /// The column.
        column: String,
    },
    /// Fewer fields than the header has.
    #[error("{}:{line}: the row has {found} fields; expected {expected} as in the header (first missing column: {column})", file.display())]
    ShortRow {
        /// The file.
        file: PathBuf,
        /// The line.
        line: u64,
        /// Fields found.
        found: usize,
        /// Fields expected.
        expected: usize,
        /// The column.
        column: String,
    },
    /// More fields than the header has.
    #[error("{}:{line}: the row has {found} fields; expected {expected} as in the header (is a comma inside a value?)", file.display())]
    LongRow {
        /// The file.
        file: PathBuf,
        /// The line.
        line: u64,
        /// Fields found.
        found: usize,
        /// Fields expected.
        expected: usize,
    },
    /// A value out of its domain, or missing.
    #[error("{}:{line}: column {column}: found {value:?}; expected {expected}", file.display())]
    BadValue {
        /// The file.
        file: PathBuf,
        /// The line.
        line: u64,
        /// The column.
        column: &'static str,
        /// The value found.
        value: String,
        /// What was expected.
        expected: String,
    },
    /// A name that must be unique twice.
    #[error("{}:{line}: column {column}: {value:?} was used on line {first_line} already; expected a name of its own for each row", file.display())]
    RepeatedName {
        /// The file.
        file: PathBuf,
        /// The line.
        line: u64,
        /// The column.
        column: &'static str,
        /// The value found.
        value: String,
        /// The line of its first use.
        first_line: u64,
    },
    /// A header and nothing else, or nothing at all.
    #[error("{}: the file holds no {rows}; expected at least one row after the header", file.display())]
    NoRows {
        /// The file.
        file: PathBuf,
        /// What the rows are.
        rows: &'static str,
    },
}

/// An open file, its header and the columns that its rows must have.
pub(crate) struct Table {
    file: PathBuf,
    header: Vec<String>,
    reader: csv::Reader<Box<dyn Read>>,
}

/// Where one named column is in a row.
#[derive(Clone, Copy)]
pub(crate) struct Column {
    name: &'static str,
    index: usize,
}

/// One row and its place in the file.
pub(crate) struct Row<'t> {
    file: &'t Path,
    line: u64,
    fields: csv::StringRecord,
}

impl Table {
    pub(crate) fn open(file: &Path) -> Result<Table, TraceError> {
        let unreadable = |source| TraceError::Unreadable { file: file.to_owned(), source };
        if file.is_dir() {
            return Err(unreadable(io::Error::new(
                io::ErrorKind::IsADirectory,
                "it is a directory; expected a CSV file",
            )));
        }
        let open = File::open(file).map_err(unreadable)?;
        let mut reader = csv::ReaderBuilder::new()
            .flexible(true)
            .trim(csv::Trim::All)
            .from_reader(Box::new(open) as Box<dyn Read>);
        let header = match reader.headers() {
            Ok(names) => names
                .iter()
                .map(|name| name.trim_start_matches('\u{feff}').to_owned())
                .collect::<Vec<_>>(),
            Err(error) => return Err(not_csv(file, error)),
        };
        let mut seen = HashMap::new();
        for name in header.iter().filter(|name| !name.is_empty()) {
            if seen.insert(name.as_str(), ()).is_some() {
                return Err(TraceError::RepeatedColumn {
                    file: file.to_owned(),
                    column: name.clone(),
                });
            }
        }
        Ok(Table { file: file.to_owned(), header, reader })
    }

    /// The column `name`, or none where the file leaves it out.
    pub(crate) fn optional(&self, name: &'static str) -> Option<Column> {
        self.header.iter().position(|found| found == name).map(|index| Column { name, index })
    }

    /// The columns that must be there, in the order asked for.
    pub(crate) fn required<const N: usize>(
        &self,
        names: [&'static str; N],
    ) -> Result<[Column; N], TraceError> {
        for name in names {
            if self.optional(name).is_none() {
                return Err(TraceError::MissingColumn {
                    file: self.file.clone(),
                    column: name,
                    expected: names.join(","),
                    found: self.header.join(","),
                });
            }
        }
        Ok(names.map(|name| self.optional(name).expect("checked above")))
    }

    /// Calls `each` with every row, which all have as many fields as the header.
    pub(crate) fn for_each_row(
        mut self,
        mut each: impl FnMut(&Row<'_>) -> Result<(), TraceError>,
    ) -> Result<(), TraceError> {
        let mut fields = csv::StringRecord::new();
        loop {
            match self.reader.read_record(&mut fields) {
                Ok(false) => return Ok(()),
                Ok(true) => {}
                Err(error) => return Err(not_csv(&self.file, error)),
            }
            let line = fields.position().map_or(0, csv::Position::line);
            let (found, expected) = (fields.len(), self.header.len());
            if found < expected {
                return Err(TraceError::ShortRow {
                    file: self.file,
                    line,
                    found,
                    expected,
                    column: self.header[found].clone(),
                });
            }
            if found > expected {
                return Err(TraceError::LongRow { file: self.file, line, found, expected });
            }
            each(&Row { file: &self.file, line, fields: fields.clone() })?;
        }
    }
}

impl Row<'_> {
    pub(crate) fn text(&self, column: Column) -> &str {
        &self.fields[column.index]
    }

    /// A text that must not be empty.
    pub(crate) fn name(&self, column: Column) -> Result<&str, TraceError> {
        match self.text(column) {
            "" => Err(self.bad(column, "a name")),
            text => Ok(text),
        }
    }

    /// A whole number in `range`; `what` says what it counts.
    pub(crate) fn integer<T: TryFrom<i64>>(
        &self,
        column: Column,
        range: RangeInclusive<i64>,
        what: &str,
    ) -> Result<T, TraceError> {
        let value = self.text(column).parse::<i64>().ok().filter(|value| range.contains(value));
        match value.and_then(|value| T::try_from(value).ok()) {
            Some(value) => Ok(value),
            None => Err(self.bad(
                column,
                format!("{what}: a whole number from {} to {}", range.start(), range.end()),
            )),
        }
    }

    /// A finite number in `range`; `what` says what it is.
    pub(crate) fn number(
        &self,
        column: Column,
        range: RangeInclusive<f64>,
        what: &str,
    ) -> Result<f64, TraceError> {
        match self.text(column).parse::<f64>() {
            Ok(value) if range.contains(&value) => Ok(value),
            _ => Err(self.bad(
                column,
                format!("{what}: a number from {} to {}", range.start(), range.end()),
            )),
        }
    }

    pub(crate) fn bad(&self, column: Column, expected: impl Into<String>) -> TraceError {
        TraceError::BadValue {
            file: self.file.to_owned(),
            line: self.line,
            column: column.name,
            value: self.text(column).to_owned(),
            expected: expected.into(),
        }
    }
}

/// Names used so far, so that a second use can point at the first.
#[derive(Default)]
pub(crate) struct Names(HashMap<String, u64>);

impl Names {
    pub(crate) fn claim(&mut self, row: &Row<'_>, column: Column) -> Result<String, TraceError> {
        let name = row.name(column)?.to_owned();
        if let Some(&first_line) = self.0.get(&name) {
            return Err(TraceError::RepeatedName {
                file: row.file.to_owned(),
                line: row.line,
                column: column.name,
                value: name,
                first_line,
            });
        }
        self.0.insert(name.clone(), row.line);
        Ok(name)
    }
}

fn not_csv(file: &Path, error: csv::Error) -> TraceError {
    let line = error.position().map_or(1, csv::Position::line);
    match error.into_kind() {
        csv::ErrorKind::Io(source) => TraceError::Unreadable { file: file.to_owned(), source },
        csv::ErrorKind::Utf8 { err, .. } => TraceError::NotCsv {
            file: file.to_owned(),
            line,
            problem: format!("{err}; expected UTF-8 text"),
        },
        other => TraceError::NotCsv { file: file.to_owned(), line, problem: format!("{other:?}") },
    }
}
