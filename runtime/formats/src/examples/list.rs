//! Decoding of one `Feature`: its `FloatList`, `Int64List` or `BytesList` is appended to a column.

use super::schema::Dtype;
use super::values::Values;
use crate::error::{FileKind, FormatError};
use crate::memory;
use crate::tensor::BytesColumn;
use crate::wire::{Value, WireError, WireReader};

/// The result of decoding a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DecodedList {
    /// No list: it counts as missing.
    Absent,
    /// A list of the column's type, with this many values, of which those up to the limit were appended.
    Values(usize),
    /// A list of another type.
    OtherType(Dtype),
}

/// Why a list cannot be decoded.
#[derive(Debug)]
pub(super) enum ListError {
    Wire(WireError),
    /// There is no memory for its values.
    Memory(FormatError),
}

impl From<WireError> for ListError {
    fn from(error: WireError) -> ListError {
        ListError::Wire(error)
    }
}

/// Fast path: appends the values of a feature in the common encoding, which is one list in one piece of the column's type, with lengths
/// of one byte each. Returns their number; zero if the encoding is another.
#[inline(always)]
pub(super) fn append_short_list(feature: &[u8], into: &mut Values) -> usize {
    let [tag, list, 0x0a, length, values @ ..] = feature else {
        return 0;
    };
    let (list, length) = (*list as usize, *length as usize);
    if list >= 0x80 || length + 2 != list || values.len() != length {
        return 0;
    }
    match (tag, into) {
        (0x12, Values::Float(into)) => {
            let (values, rest) = values.as_chunks::<4>();
            match values {
                _ if !rest.is_empty() => 0,
                [value] => {
                    into.push(f32::from_le_bytes(*value));
                    1
                }
                values => {
                    into.extend(values.iter().map(|value| f32::from_le_bytes(*value)));
                    values.len()
                }
            }
        }
        (0x1a, Values::Int64(into)) => {
            let value = match values {
                [low @ 0..0x80] => u64::from(*low),
                [low @ 0x80..=0xff, high @ 0..0x80] => {
                    u64::from(*low & 0x7f) | u64::from(*high) << 7
                }
                _ => return 0,
            };
            into.push(value as i64);
            1
        }
        (0x0a, Values::Bytes(into)) => {
            into.push(values);
            1
        }
        _ => 0,
    }
}

/// Appends the values of a feature, at most `limit` of them.
pub(super) fn append(
    feature: &[u8],
    into: &mut Values,
    limit: usize,
) -> Result<DecodedList, ListError> {
    // The common encoding is one list: `tag length list`.
    let (dtype, lists) = match feature {
        [] => return Ok(DecodedList::Absent),
        [tag, length, list @ ..] if *length < 0x80 && list.len() == *length as usize => {
            match dtype_of(*tag) {
                Some(dtype) => (dtype, ListPieces::One(list)),
                None => return append_general(feature, into, limit),
            }
        }
        _ => return append_general(feature, into, limit),
    };
    append_lists(dtype, lists, into, limit)
}

fn dtype_of(tag: u8) -> Option<Dtype> {
    match tag {
        0x0a => Some(Dtype::Bytes),
        0x12 => Some(Dtype::Float),
        0x1a => Some(Dtype::Int64),
        _ => None,
    }
}

/// One list, or the pieces of one among other fields.
#[derive(Clone, Copy)]
enum ListPieces<'a> {
    One(&'a [u8]),
    Pieces { number: u32, fields: &'a [u8] },
}

#[cold]
fn append_general(
    feature: &[u8],
    into: &mut Values,
    limit: usize,
) -> Result<DecodedList, ListError> {
    // Of several lists the last decides; its pieces begin after the last list of another type.
    let mut wire = WireReader::new(feature);
    let mut last: Option<(u32, usize)> = None;
    loop {
        let before = wire.position();
        let Some((number, value)) = wire.field()? else {
            break;
        };
        if let (1..=3, Value::Bytes(_)) = (number, value)
            && last.is_none_or(|(last, _)| last != number)
        {
            last = Some((number, before));
        }
    }
    let Some((number, start)) = last else {
        return Ok(DecodedList::Absent);
    };
    let dtype = match number {
        1 => Dtype::Bytes,
        2 => Dtype::Float,
        _ => Dtype::Int64,
    };
    let fields = &feature[start..];
    append_lists(dtype, ListPieces::Pieces { number, fields }, into, limit).map_err(|e| match e {
        ListError::Wire(broken) => ListError::Wire(WireError {
            at: broken.at + start,
            ..broken
        }),
        ListError::Memory(e) => ListError::Memory(e),
    })
}

#[inline]
fn append_lists(
    dtype: Dtype,
    lists: ListPieces<'_>,
    into: &mut Values,
    limit: usize,
) -> Result<DecodedList, ListError> {
    let full = into.len().saturating_add(limit);
    let count = match (into, dtype) {
        (Values::Float(into), Dtype::Float) => each(lists, |list| floats(list, into, full))?,
        (Values::Int64(into), Dtype::Int64) => each(lists, |list| int64s(list, into, full))?,
        (Values::Bytes(into), Dtype::Bytes) => each(lists, |list| strings(list, into, full))?,
        (Values::Float(_) | Values::Int64(_) | Values::Bytes(_), dtype) => {
            return Ok(DecodedList::OtherType(dtype));
        }
    };
    Ok(DecodedList::Values(count))
}

/// The sum of the values of all pieces.
#[inline]
fn each(
    lists: ListPieces<'_>,
    mut append: impl FnMut(&[u8]) -> Result<usize, ListError>,
) -> Result<usize, ListError> {
    match lists {
        ListPieces::One(list) => append(list),
        ListPieces::Pieces { number, fields } => {
            let mut count = 0;
            let mut wire = WireReader::new(fields);
            while let Some((found, value)) = wire.field()? {
                if let Value::Bytes(list) = value
                    && found == number
                {
                    count += append(list)?;
                }
            }
            Ok(count)
        }
    }
}

/// Appends floats until the column is full, and counts them all.
#[inline]
fn floats(list: &[u8], into: &mut Vec<f32>, full: usize) -> Result<usize, ListError> {
    // Most often there is one.
    if let [0x0a, 4, a, b, c, d] = list {
        if into.len() < full {
            into.push(f32::from_le_bytes([*a, *b, *c, *d]));
        }
        return Ok(1);
    }
    let mut count = 0;
    let mut wire = WireReader::new(list);
    while let Some((number, value)) = wire.field()? {
        match (number, value) {
            (1, Value::Bytes(packed)) => {
                let (values, rest) = packed.as_chunks::<4>();
                if !rest.is_empty() {
                    let at = wire.position() - rest.len();
                    let cause = "a list of floats ends inside one";
                    return Err(WireError { at, cause }.into());
                }
                let taken = values.len().min(full - into.len());
                reserve(into, taken)?;
                into.extend(
                    values[..taken]
                        .iter()
                        .map(|value| f32::from_le_bytes(*value)),
                );
                count += values.len();
            }
            (1, Value::Fixed32(value)) => {
                if into.len() < full {
                    reserve(into, 1)?;
                    into.push(f32::from_bits(value));
                }
                count += 1;
            }
            _ => {}
        }
    }
    Ok(count)
}

/// Appends integers until the column is full, and counts them all.
#[inline]
fn int64s(list: &[u8], into: &mut Vec<i64>, full: usize) -> Result<usize, ListError> {
    // Most often there is one, and it is small.
    if let [0x0a, 1, value @ 0..0x80] = list {
        if into.len() < full {
            into.push(i64::from(*value));
        }
        return Ok(1);
    }
    let mut count = 0;
    let mut add = |value: u64, into: &mut Vec<i64>| {
        if into.len() < full {
            into.push(value as i64);
        }
        count += 1;
    };
    let mut wire = WireReader::new(list);
    while let Some((number, value)) = wire.field()? {
        match (number, value) {
            (1, Value::Bytes(packed)) => {
                let start = wire.position() - packed.len();
                let moved = |broken: WireError| WireError {
                    at: broken.at + start,
                    ..broken
                };
                // A number takes a byte or more, and ends with one below 128.
                if packed.len() > into.capacity() - into.len() {
                    let numbers = packed.iter().filter(|byte| **byte < 0x80).count();
                    reserve(into, numbers.min(full - into.len()))?;
                }
                let mut numbers = WireReader::new(packed);
                while !numbers.is_empty() {
                    add(numbers.varint().map_err(moved)?, into);
                }
            }
            (1, Value::Varint(value)) => {
                reserve(into, 1)?;
                add(value, into);
            }
            _ => {}
        }
    }
    Ok(count)
}

/// Appends strings until the column is full, and counts them all.
#[inline]
fn strings(list: &[u8], into: &mut BytesColumn, full: usize) -> Result<usize, ListError> {
    // Most often there is one, and it is short.
    if let [0x0a, length, value @ ..] = list
        && *length < 0x80
        && value.len() == *length as usize
    {
        if into.len() < full {
            into.try_push(FileKind::Example, value)
                .map_err(ListError::Memory)?;
        }
        return Ok(1);
    }
    let mut count = 0;
    let mut wire = WireReader::new(list);
    while let Some((number, value)) = wire.field()? {
        if let (1, Value::Bytes(value)) = (number, value) {
            if into.len() < full {
                into.try_push(FileKind::Example, value)
                    .map_err(ListError::Memory)?;
            }
            count += 1;
        }
    }
    Ok(count)
}

fn reserve<T>(into: &mut Vec<T>, additional: usize) -> Result<(), ListError> {
    memory::reserve(FileKind::Example, into, additional).map_err(ListError::Memory)
}
