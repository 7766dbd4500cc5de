//! Numbers as they lie in memory.

use super::tensor::{Elements, Tensor};
use crate::error::{FileKind, FormatError, Result};
use crate::proto::DataType;

/// How raw bytes are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawOptions {
    /// Whether the lowest byte of a number comes first.
    pub little_endian: bool,
    /// To how many bytes each string is cut, or filled up with zeros; nothing if all have one length.
    pub fixed_length: Option<usize>,
}

impl Default for RawOptions {
    fn default() -> RawOptions {
        RawOptions {
            little_endian: true,
            fixed_length: None,
        }
    }
}

/// How many bytes a number of a type takes; nothing for types that are no numbers of a fixed size.
pub fn element_size(dtype: DataType) -> Option<usize> {
    use DataType::*;
    match dtype {
        DtBool | DtInt8 | DtUint8 | DtQint8 | DtQuint8 | DtFloat8E5m2 | DtFloat8E4m3fn => Some(1),
        DtInt16 | DtUint16 | DtQint16 | DtQuint16 | DtHalf | DtBfloat16 => Some(2),
        DtFloat | DtInt32 | DtUint32 | DtQint32 => Some(4),
        DtDouble | DtInt64 | DtUint64 | DtComplex64 => Some(8),
        DtComplex128 => Some(16),
        _ => None,
    }
}

/// The numbers in strings of bytes, which must have one length: a row to each string.
///
/// ```
/// use trainspec_formats::codecs::{Elements, RawOptions, decode_raw};
/// use trainspec_formats::proto::DataType;
///
/// # fn main() -> trainspec_formats::Result<()> {
/// let options = RawOptions { little_endian: false, ..Default::default() };
/// let tensor = decode_raw([&[1, 2, 3, 4][..]], DataType::DtInt16, &options)?;
/// assert_eq!(tensor.shape, [1, 2]);
/// assert_eq!(tensor.elements, Elements::Numbers(vec![2, 1, 4, 3]));
/// # Ok(())
/// # }
/// ```
pub fn decode_raw<'a>(
    strings: impl IntoIterator<Item = &'a [u8]>,
    dtype: DataType,
    options: &RawOptions,
) -> Result<Tensor> {
    let invalid = |cause: String| FormatError::invalid(FileKind::Example, cause);
    let Some(size) = element_size(dtype) else {
        return Err(invalid(format!(
            "raw bytes cannot be {}",
            dtype.as_str_name()
        )));
    };
    let mut numbers = Vec::new();
    let (mut rows, mut length) = (0_usize, options.fixed_length);
    for string in strings {
        let wanted = *length.get_or_insert(string.len());
        match options.fixed_length {
            None if string.len() != wanted => {
                return Err(invalid(format!(
                    "string {rows} has {} bytes, and those before it {wanted}",
                    string.len()
                )));
            }
            None => numbers.extend_from_slice(string),
            Some(_) => {
                let start = numbers.len();
                numbers.extend_from_slice(&string[..string.len().min(wanted)]);
                numbers.resize(start + wanted, 0);
            }
        }
        rows += 1;
    }
    let length = length.unwrap_or(0);
    if length % size != 0 {
        return Err(invalid(format!(
            "{length} bytes are no multiple of the {size} of {}",
            dtype.as_str_name()
        )));
    }
    if !options.little_endian {
        // The two parts of a complex number are numbers of their own.
        let part = match dtype {
            DataType::DtComplex64 | DataType::DtComplex128 => size / 2,
            _ => size,
        };
        numbers.chunks_exact_mut(part).for_each(<[u8]>::reverse);
    }
    Ok(Tensor {
        dtype,
        shape: vec![rows, length / size],
        elements: Elements::Numbers(numbers),
    })
}
