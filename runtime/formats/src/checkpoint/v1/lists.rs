//! The repeated fields of `TensorProto` (`float_val`, `int_val`, ...): which field holds which type, and their wire encoding.
//!
//! These lists are read and written without a [`TensorProto`](crate::proto::TensorProto) in between: a checkpoint holds a tensor of any
//! size as one list, which would take its memory twice. And they are stricter than
//! [`Tensor::from_message`](crate::tensor::Tensor::from_message): a list is as long as its slice, never filled up, and
//! never `tensor_content`.

use crate::error::{FileKind, FormatError, Result};
use crate::memory;
use crate::tensor::{BytesColumn, DType, ElementsView, TensorView};
use crate::wire::{Value, WireError, WireReader, put_varint};

/// The wire encoding of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Four bytes each.
    Fixed32,
    /// Eight bytes each.
    Fixed64,
    /// Varints, of which a tensor stores this many bytes each.
    Varint(usize),
    /// A string each.
    Strings,
}

/// The field number of a type's list, and its encoding; `None` for a type that has none.
fn list_of(dtype: DType) -> Option<(u32, Form)> {
    Some(match dtype {
        DType::Float32 => (5, Form::Fixed32),
        DType::Float64 => (6, Form::Fixed64),
        DType::Int32 | DType::QInt32 => (7, Form::Varint(4)),
        DType::Int16 | DType::UInt16 | DType::QInt16 | DType::QUInt16 => (7, Form::Varint(2)),
        DType::Int8 | DType::UInt8 | DType::QInt8 | DType::QUInt8 => (7, Form::Varint(1)),
        DType::String => (8, Form::Strings),
        DType::Complex64 => (9, Form::Fixed32),
        DType::Int64 => (10, Form::Varint(8)),
        DType::Bool => (11, Form::Varint(1)),
        DType::Complex128 => (12, Form::Fixed64),
        DType::Float16 => (13, Form::Varint(2)),
        _ => return None,
    })
}

/// Whether elements of a type can be read.
pub(super) fn reads(dtype: DType) -> bool {
    list_of(dtype).is_some()
}

/// Whether elements of a type are written: TensorFlow reads no quantized integers of sixteen bits, although it has a list for them.
pub(super) fn holds(dtype: DType) -> bool {
    reads(dtype) && !matches!(dtype, DType::QInt16 | DType::QUInt16)
}

/// The minimum encoded size of a list of `count` elements, whatever they are: that of fixed-width numbers is exact.
pub(super) fn min_length(dtype: DType, count: usize) -> usize {
    match list_of(dtype) {
        Some((_, Form::Fixed32 | Form::Fixed64)) => count.saturating_mul(dtype.size().unwrap_or(1)),
        Some((_, Form::Varint(_))) => count,
        // A tag and a length for each.
        Some((_, Form::Strings)) => count.saturating_mul(2),
        None => 0,
    }
}

/// The list of a tensor with its encoded size, before it is encoded.
#[derive(Debug, Clone, Copy)]
pub(super) struct List<'a> {
    tensor: TensorView<'a>,
    /// The bytes of the packed numbers without tag and length; zero for strings.
    packed: usize,
    /// The total encoded size in bytes.
    pub(super) length: usize,
}

impl<'a> List<'a> {
    /// Computes the encoded size of a tensor's list. Its type must be one that [`reads`] allows.
    pub(super) fn new(tensor: TensorView<'a>) -> List<'a> {
        let packed = match (list_of(tensor.dtype()), tensor.elements()) {
            (Some((_, Form::Varint(size))), ElementsView::Bytes(bytes)) => {
                let values = bytes.chunks_exact(size);
                values
                    .map(|value| varint_length(widened(tensor.dtype(), value)))
                    .sum()
            }
            (_, ElementsView::Bytes(bytes)) => bytes.len(),
            (_, ElementsView::Strings(_)) => 0,
        };
        let length = match tensor.elements() {
            ElementsView::Bytes([]) => 0,
            // The field numbers of all lists are below 16, so that tags take a byte.
            ElementsView::Bytes(_) => field_length(packed),
            ElementsView::Strings(strings) => strings
                .iter()
                .map(|string| field_length(string.len()))
                .sum(),
        };
        List {
            tensor,
            packed,
            length,
        }
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) {
        let dtype = self.tensor.dtype();
        let Some((number, form)) = list_of(dtype) else {
            return;
        };
        match (self.tensor.elements(), form) {
            (ElementsView::Bytes([]), _) => {}
            (ElementsView::Bytes(bytes), Form::Varint(size)) => {
                put_head(out, number, self.packed);
                for value in bytes.chunks_exact(size) {
                    put_varint(out, widened(dtype, value));
                }
            }
            (ElementsView::Bytes(bytes), _) => {
                put_head(out, number, self.packed);
                out.extend_from_slice(bytes);
            }
            (ElementsView::Strings(strings), _) => {
                for string in strings {
                    put_head(out, number, string.len());
                    out.extend_from_slice(string);
                }
            }
        }
    }
}

/// Why a list cannot be read.
#[derive(Debug)]
pub(super) enum ListError {
    Wire(WireError),
    /// There is no memory for it.
    Memory(FormatError),
}

impl From<WireError> for ListError {
    fn from(error: WireError) -> ListError {
        ListError::Wire(error)
    }
}

/// The numbers of a `TensorProto` as bytes, at most `limit` of them.
pub(super) fn numbers(
    message: &[u8],
    dtype: DType,
    limit: usize,
) -> std::result::Result<Vec<u8>, ListError> {
    let mut out = Vec::new();
    let Some((number, form)) = list_of(dtype) else {
        return Ok(out);
    };
    let reserve = |out: &mut Vec<u8>, size| {
        memory::reserve(FileKind::Table, out, size).map_err(ListError::Memory)
    };
    let mut wire = WireReader::new(message);
    while let Some((field, value)) = wire.field()? {
        if field != number {
            continue;
        }
        let at = wire.position();
        let wrong = |cause| ListError::Wire(WireError { at, cause });
        match (form, value) {
            (Form::Fixed32, Value::Fixed32(value)) => {
                reserve(&mut out, 4)?;
                out.extend(value.to_le_bytes());
            }
            (Form::Fixed64, Value::Fixed64(value)) => {
                reserve(&mut out, 8)?;
                out.extend(value.to_le_bytes());
            }
            (Form::Varint(size), Value::Varint(value)) => {
                reserve(&mut out, size)?;
                out.extend(&value.to_le_bytes()[..size]);
            }
            (Form::Fixed32, Value::Bytes(list)) if list.len() % 4 == 0 => {
                reserve(&mut out, list.len())?;
                out.extend_from_slice(list);
            }
            (Form::Fixed64, Value::Bytes(list)) if list.len() % 8 == 0 => {
                reserve(&mut out, list.len())?;
                out.extend_from_slice(list);
            }
            (Form::Varint(size), Value::Bytes(list)) => {
                let count = list.iter().filter(|byte| **byte < 0x80).count();
                reserve(
                    &mut out,
                    count.saturating_mul(size).min(limit.saturating_add(8)),
                )?;
                let mut list = WireReader::new(list);
                while !list.is_empty() && out.len() <= limit {
                    let value = list.varint()?;
                    out.extend(&value.to_le_bytes()[..size]);
                }
            }
            _ => return Err(wrong("a list of elements has another form")),
        }
        if out.len() > limit {
            return Err(wrong("a list has more elements than the tensor"));
        }
    }
    Ok(out)
}

/// The strings of a `TensorProto`, at most `limit` of them.
pub(super) fn strings(message: &[u8], limit: usize) -> std::result::Result<BytesColumn, ListError> {
    let mut out = BytesColumn::default();
    let mut wire = WireReader::new(message);
    while let Some((field, value)) = wire.field()? {
        let at = wire.position();
        match (field, value) {
            (8, Value::Bytes(string)) if out.len() < limit => {
                let pushed: Result<()> = out.try_push(FileKind::Table, string);
                pushed.map_err(ListError::Memory)?;
            }
            (8, _) => {
                let cause = "a list has more elements than the tensor";
                return Err(WireError { at, cause }.into());
            }
            _ => {}
        }
    }
    Ok(out)
}

/// A number as the list has it: signed ones are sign-extended to 64 bits.
fn widened(dtype: DType, bytes: &[u8]) -> u64 {
    let mut wide = [0; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    let value = u64::from_le_bytes(wide);
    let signed = matches!(
        dtype,
        DType::Int8 | DType::Int16 | DType::Int32 | DType::QInt8 | DType::QInt16 | DType::QInt32
    );
    match signed {
        true => {
            let unused = 64 - 8 * bytes.len();
            ((value << unused) as i64 >> unused) as u64
        }
        false => value,
    }
}

/// Writes the tag and the length of a length-delimited field.
pub(super) fn put_head(out: &mut Vec<u8>, field: u32, length: usize) {
    put_varint(out, u64::from(field) << 3 | 2);
    put_varint(out, length as u64);
}

/// The encoded size of a length-delimited field whose number is below 16.
pub(super) fn field_length(length: usize) -> usize {
    1 + varint_length(length as u64) + length
}

fn varint_length(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_round_trips() {
        let bytes: Vec<u8> = (0..=255).map(|i: u8| i.wrapping_mul(37)).collect();
        for dtype in DType::all().filter(|&d| reads(d) && d.size().is_some()) {
            let bytes = match dtype {
                DType::Bool => bytes.iter().map(|b| b & 1).collect(),
                _ => bytes.clone(),
            };
            let shape = [256 / dtype.size().unwrap()];
            let list = List::new(TensorView::new(dtype, &shape, &bytes).unwrap());
            let mut message = Vec::new();
            list.put(&mut message);
            assert_eq!(message.len(), list.length, "{dtype}");
            assert_eq!(numbers(&message, dtype, 256).unwrap(), bytes, "{dtype}");
            assert!(numbers(&message, dtype, 255).is_err(), "{dtype}");
        }
    }
}
