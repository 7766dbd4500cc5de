//! CSV decoding (`tf.io.decode_csv`).
//!
//! In: lines, each a record, or a stream of bytes. Out: one column per field, or the fields of record after record. `fields.rs` has the
//! rules.

mod fields;
mod records;

pub use records::CsvReader;

use crate::error::{FileKind, FormatError, Result};
use crate::tensor::BytesColumn;

/// How lines are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CsvOptions {
    /// The field delimiter.
    pub delimiter: u8,
    /// Whether a quote begins a quoted field (`use_quote_delim`).
    pub quotes: bool,
    /// The string that, besides the empty one, means that a value is missing (`na_value`).
    pub missing: Vec<u8>,
    /// The indices of the fields that are read, in order; `None` for all (`select_cols`).
    pub select: Option<Vec<usize>>,
}

impl Default for CsvOptions {
    fn default() -> CsvOptions {
        CsvOptions {
            delimiter: b',',
            quotes: true,
            missing: Vec::new(),
            select: None,
        }
    }
}

/// The type of a field, and its default value; without one, it is required (`record_defaults`).
#[derive(Debug, Clone, PartialEq)]
pub enum CsvDefault {
    /// Integers of 32 bits.
    Int32(Option<i32>),
    /// Integers of 64 bits.
    Int64(Option<i64>),
    /// Floats of 32 bits.
    Float(Option<f32>),
    /// Floats of 64 bits.
    Double(Option<f64>),
    /// Strings of bytes.
    Bytes(Option<Vec<u8>>),
}

/// The values of a field.
#[derive(Debug, Clone, PartialEq)]
pub enum CsvColumn {
    /// Integers of 32 bits.
    Int32(Vec<i32>),
    /// Integers of 64 bits.
    Int64(Vec<i64>),
    /// Floats of 32 bits.
    Float(Vec<f32>),
    /// Floats of 64 bits.
    Double(Vec<f64>),
    /// Strings of bytes.
    Bytes(BytesColumn),
}

/// Decodes lines into one column per field.
///
/// ```
/// use trainspec_formats::codecs::{CsvColumn, CsvDefault, CsvOptions, decode_csv};
///
/// # fn main() -> trainspec_formats::Result<()> {
/// let fields = [CsvDefault::Int32(None), CsvDefault::Float(Some(7.5))];
/// let columns = decode_csv([&b"1,2.5"[..], b"-4,"], &fields, &CsvOptions::default())?;
/// assert_eq!(columns, [CsvColumn::Int32(vec![1, -4]), CsvColumn::Float(vec![2.5, 7.5])]);
/// # Ok(())
/// # }
/// ```
pub fn decode_csv<'a>(
    lines: impl IntoIterator<Item = &'a [u8]>,
    defaults: &[CsvDefault],
    options: &CsvOptions,
) -> Result<Vec<CsvColumn>> {
    if let Some(select) = &options.select
        && (select.len() != defaults.len() || !select.is_sorted_by(|a, b| a < b))
    {
        return Err(invalid(
            "the selected fields must be in order, with a default for each".to_owned(),
        ));
    }
    let required = match &options.select {
        Some(select) => select.last().map_or(0, |last| last.saturating_add(1)),
        None => defaults.len(),
    };
    let limit = match options.select {
        Some(_) => required,
        None => usize::MAX,
    };
    let mut columns: Vec<CsvColumn> = defaults.iter().map(CsvColumn::new).collect();
    let mut fields = BytesColumn::default();
    for (record, line) in lines.into_iter().enumerate() {
        fields::split(line, options.delimiter, options.quotes, limit, &mut fields)
            .map_err(|bad| invalid(format!("record {record}: {}", bad.cause)))?;
        let place = |number: usize| match &options.select {
            Some(select) => select[number],
            None => number,
        };
        let enough = match options.select {
            Some(_) => fields.len() >= required,
            None => fields.len() == required,
        };
        if !enough {
            let found = fields.len();
            return Err(invalid(format!(
                "record {record} has {found} fields, and {required} are required"
            )));
        }
        for (number, (default, column)) in defaults.iter().zip(&mut columns).enumerate() {
            let field = &fields[place(number)];
            let done = match field.is_empty() || field == options.missing {
                true => column
                    .push_default(default)
                    .ok_or("is required and is missing".to_owned()),
                false => column.push(field),
            };
            done.map_err(|why| invalid(format!("record {record}: field {} {why}", place(number))))?;
        }
    }
    Ok(columns)
}

fn invalid(cause: String) -> FormatError {
    FormatError::invalid(FileKind::Example, cause)
}

impl CsvColumn {
    fn new(default: &CsvDefault) -> CsvColumn {
        match default {
            CsvDefault::Int32(_) => CsvColumn::Int32(Vec::new()),
            CsvDefault::Int64(_) => CsvColumn::Int64(Vec::new()),
            CsvDefault::Float(_) => CsvColumn::Float(Vec::new()),
            CsvDefault::Double(_) => CsvColumn::Double(Vec::new()),
            CsvDefault::Bytes(_) => CsvColumn::Bytes(BytesColumn::default()),
        }
    }

    /// Appends the default value, if there is one.
    fn push_default(&mut self, default: &CsvDefault) -> Option<()> {
        match (self, default) {
            (CsvColumn::Int32(values), CsvDefault::Int32(default)) => values.push((*default)?),
            (CsvColumn::Int64(values), CsvDefault::Int64(default)) => values.push((*default)?),
            (CsvColumn::Float(values), CsvDefault::Float(default)) => values.push((*default)?),
            (CsvColumn::Double(values), CsvDefault::Double(default)) => values.push((*default)?),
            (CsvColumn::Bytes(values), CsvDefault::Bytes(default)) => {
                values.push(default.as_ref()?)
            }
            _ => unreachable!("a column is of the type of its default"),
        }
        Some(())
    }

    fn push(&mut self, field: &[u8]) -> std::result::Result<(), String> {
        match self {
            CsvColumn::Int32(values) => values.push(number(field, "int32")?),
            CsvColumn::Int64(values) => values.push(number(field, "int64")?),
            CsvColumn::Float(values) => values.push(number(field, "float")?),
            CsvColumn::Double(values) => values.push(number(field, "double")?),
            CsvColumn::Bytes(values) => values.push(field),
        }
        Ok(())
    }
}

/// Parses a number, trimming white space.
fn number<T: std::str::FromStr>(field: &[u8], dtype: &str) -> std::result::Result<T, String> {
    let text = std::str::from_utf8(field).ok().map(str::trim_ascii);
    let parsed = text.and_then(|text| text.parse().ok());
    parsed.ok_or_else(|| format!("is not a valid {dtype}: {}", field.escape_ascii()))
}
