//! The elements of a tensor as a list in a message: which list has which type, and how the elements lie in it.

use crate::checkpoint::DType;
use crate::wire::{Broken, Value, Wire};

/// How the numbers of a list are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Four bytes each.
    Fixed32,
    /// Eight bytes each.
    Fixed64,
    /// Of variable length; of which this many bytes are stored in a tensor.
    Varint(usize),
    /// A string each.
    Strings,
}

/// The number of the list that holds a type, and its form; nothing for a type that has none.
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

/// Whether the format can hold a type.
pub(super) fn holds(dtype: DType) -> bool {
    list_of(dtype).is_some()
}

/// Appends the list of numbers to a message of a tensor. The type must be one that [`holds`] allows and be no string.
pub(super) fn put_numbers(out: &mut Vec<u8>, dtype: DType, bytes: &[u8]) {
    let Some((number, form)) = list_of(dtype) else {
        return;
    };
    if bytes.is_empty() {
        return;
    }
    put_varint(out, u64::from(number) << 3 | 2);
    match form {
        Form::Fixed32 | Form::Fixed64 => {
            put_varint(out, bytes.len() as u64);
            out.extend_from_slice(bytes);
        }
        Form::Varint(size) => {
            let values = || bytes.chunks_exact(size).map(|value| widened(dtype, value));
            let length: usize = values().map(varint_length).sum();
            put_varint(out, length as u64);
            values().for_each(|value| put_varint(out, value));
        }
        Form::Strings => {}
    }
}

/// Appends strings to a message of a tensor.
pub(super) fn put_strings(out: &mut Vec<u8>, strings: &[Vec<u8>]) {
    for string in strings {
        put_bytes(out, 8, string);
    }
}

/// The numbers of a message of a tensor, as bytes, at most `limit` of them.
pub(super) fn numbers(message: &[u8], dtype: DType, limit: usize) -> Result<Vec<u8>, Broken> {
    let mut out = Vec::new();
    let Some((number, form)) = list_of(dtype) else {
        return Ok(out);
    };
    let mut wire = Wire::new(message);
    while let Some((field, value)) = wire.field()? {
        if field != number {
            continue;
        }
        let at = wire.position();
        let wrong = |cause| Broken { at, cause };
        match (form, value) {
            (Form::Fixed32, Value::Fixed32(value)) => out.extend(value.to_le_bytes()),
            (Form::Fixed64, Value::Fixed64(value)) => out.extend(value.to_le_bytes()),
            (Form::Varint(size), Value::Varint(value)) => {
                out.extend(&value.to_le_bytes()[..size]);
            }
            (Form::Fixed32, Value::Bytes(list)) if list.len() % 4 == 0 => {
                out.extend_from_slice(list);
            }
            (Form::Fixed64, Value::Bytes(list)) if list.len() % 8 == 0 => {
                out.extend_from_slice(list);
            }
            (Form::Varint(size), Value::Bytes(list)) => {
                let mut list = Wire::new(list);
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

/// The strings of a message of a tensor, at most `limit` of them.
pub(super) fn strings(message: &[u8], limit: usize) -> Result<Vec<Vec<u8>>, Broken> {
    let mut out = Vec::new();
    let mut wire = Wire::new(message);
    while let Some((field, value)) = wire.field()? {
        let at = wire.position();
        match (field, value) {
            (8, Value::Bytes(string)) if out.len() < limit => out.push(string.to_vec()),
            (8, _) => {
                return Err(Broken {
                    at,
                    cause: "a list has more elements than the tensor",
                });
            }
            _ => {}
        }
    }
    Ok(out)
}

/// A number as the list has it: with a sign, it is that of 64 bits.
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

pub(super) fn put_bytes(out: &mut Vec<u8>, field: u32, bytes: &[u8]) {
    put_varint(out, u64::from(field) << 3 | 2);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn varint_length(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_survives_the_round_trip() {
        let bytes: Vec<u8> = (0..=255).map(|i: u8| i.wrapping_mul(37)).collect();
        for dtype in DType::all().filter(|&d| holds(d) && d.size().is_some()) {
            let bytes = match dtype {
                DType::Bool => bytes.iter().map(|b| b & 1).collect(),
                _ => bytes.clone(),
            };
            let mut message = Vec::new();
            put_numbers(&mut message, dtype, &bytes);
            assert_eq!(numbers(&message, dtype, 256).unwrap(), bytes, "{dtype}");
            assert!(numbers(&message, dtype, 255).is_err(), "{dtype}");
        }
    }
}
