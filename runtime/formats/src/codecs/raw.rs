//! Raw bytes as numbers (`tf.io.decode_raw`, `decode_padded_raw`).

use crate::error::{FileKind, FormatError, Result};
use crate::tensor::{DType, Tensor, swap_bytes};

/// How raw bytes are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawOptions {
    /// Whether the bytes are little-endian.
    pub little_endian: bool,
    /// The length in bytes to which each string is truncated or zero-padded; `None` if all must have one length.
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

/// Decodes byte strings of one length as numbers: one row per string.
///
/// ```
/// use trainspec_formats::codecs::{RawOptions, decode_raw};
/// use trainspec_formats::tensor::{DType, Tensor};
///
/// # fn main() -> trainspec_formats::Result<()> {
/// let options = RawOptions { little_endian: false, ..Default::default() };
/// let tensor = decode_raw([&[1, 2, 3, 4][..]], DType::Int16, &options)?;
/// assert_eq!(tensor, Tensor::from_values(&[1, 2], &[0x0102_i16, 0x0304])?);
/// # Ok(())
/// # }
/// ```
pub fn decode_raw<'a>(
    strings: impl IntoIterator<Item = &'a [u8]>,
    dtype: DType,
    options: &RawOptions,
) -> Result<Tensor> {
    let invalid = |cause: String| FormatError::invalid(FileKind::Example, cause);
    let Some(size) = dtype.size() else {
        return Err(invalid(format!("raw bytes cannot be {dtype}")));
    };
    let mut numbers = Vec::new();
    let (mut rows, mut length) = (0_usize, options.fixed_length);
    for string in strings {
        let expected = *length.get_or_insert(string.len());
        match options.fixed_length {
            None if string.len() != expected => {
                return Err(invalid(format!(
                    "string {rows} has {} bytes, and those before it {expected}",
                    string.len()
                )));
            }
            None => numbers.extend_from_slice(string),
            Some(_) => {
                let start = numbers.len();
                numbers.extend_from_slice(&string[..string.len().min(expected)]);
                numbers.resize(start + expected, 0);
            }
        }
        rows += 1;
    }
    let length = length.unwrap_or(0);
    if length % size != 0 {
        return Err(invalid(format!(
            "{length} bytes are no multiple of the {size} of {dtype}"
        )));
    }
    if !options.little_endian {
        swap_bytes(dtype, &mut numbers);
    }
    Tensor::new(dtype, &[rows, length / size], numbers)
}
