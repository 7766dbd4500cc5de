//! The CSV tokenizer: a record, split into its fields.
//!
//! The rules are those of RFC 4180 as TensorFlow reads them: spaces belong to a field, a field with quotes begins and ends with one,
//! and a quote in it is written twice.

use crate::tensor::BytesColumn;

/// A field that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BadField {
    /// The fact.
    pub(super) cause: &'static str,
    /// The offset in the record at which the field begins: of a quoted one, its opening quote.
    pub(super) start: usize,
}

/// Splits a record into fields, at most `limit` of them; as in TensorFlow, the rest after the last is not checked.
pub(super) fn split(
    record: &[u8],
    delimiter: u8,
    quotes: bool,
    limit: usize,
    fields: &mut BytesColumn,
) -> std::result::Result<(), BadField> {
    fields.truncate(0);
    let mut field = Vec::new();
    let mut rest = record;
    while fields.len() < limit
        && let [first, after @ ..] = rest
    {
        // As in TensorFlow, line ends before a field are ignored.
        if let b'\n' | b'\r' = first {
            rest = after;
            continue;
        }
        let start = record.len() - rest.len();
        let bad = |cause| BadField { cause, start };
        if quotes && *first == b'"' {
            field.clear();
            rest = quoted(after, delimiter, &mut field).map_err(bad)?;
            fields.push(&field);
        } else {
            let end = rest
                .iter()
                .position(|byte| *byte == delimiter)
                .unwrap_or(rest.len());
            let forbidden = |byte: &u8| matches!(byte, b'\n' | b'\r') || (quotes && *byte == b'"');
            if rest[..end].iter().any(forbidden) {
                return Err(bad(
                    "a field without quotes has a quote or a line end in it",
                ));
            }
            fields.push(&rest[..end]);
            rest = rest.get(end + 1..).unwrap_or_default();
        }
    }
    if record.last() == Some(&delimiter) && fields.len() < limit {
        fields.push(b"");
    }
    Ok(())
}

/// Splits a record without quotes and line ends into its fields.
pub(super) fn split_plain(record: &[u8], delimiter: u8, fields: &mut BytesColumn) {
    fields.truncate(0);
    let mut start = 0;
    for end in memchr::memchr_iter(delimiter, record) {
        fields.push(&record[start..end]);
        start = end + 1;
    }
    fields.push(&record[start..]);
}

/// Reads a quoted field after its opening quote; returns the rest after its delimiter.
fn quoted<'a>(
    mut rest: &'a [u8],
    delimiter: u8,
    field: &mut Vec<u8>,
) -> std::result::Result<&'a [u8], &'static str> {
    loop {
        match rest {
            [] => return Err("a field with quotes does not end with one"),
            [b'"'] => return Ok(&[]),
            [b'"', next, after @ ..] if *next == delimiter => return Ok(after),
            [b'"', b'"', after @ ..] => {
                field.push(b'"');
                rest = after;
            }
            [b'"', ..] => return Err("a quote inside a field is not written twice"),
            [byte, after @ ..] => {
                field.push(*byte);
                rest = after;
            }
        }
    }
}
