//! Tensors inside summaries, as lists of values.
//!
//! In: a message, or values and a shape. Out: the other. Leaves alone: resources and variants, which mean something only
//! inside a program.

use half::{bf16, f16};

use crate::error::{Code, FileKind, FormatError, Result};
use crate::proto::tensor_shape_proto::Dim;
use crate::proto::{DataType, TensorProto, TensorShapeProto};

/// The elements of a tensor, the last dimension the fastest.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Elements {
    /// Halves of either kind, floats and doubles.
    Floats(Vec<f64>),
    /// All integers that fit, and booleans as 0 and 1.
    Integers(Vec<i64>),
    /// The integers of 64 bits without a sign.
    Unsigned(Vec<u64>),
    /// Real and imaginary parts.
    Complex(Vec<[f64; 2]>),
    /// Strings, which may be any bytes.
    Strings(Vec<Vec<u8>>),
}

/// The most elements that a list shorter than the shape is filled up to: the file does not hold them.
const FILLED: usize = 1 << 24;

/// The extents of a tensor. Unknown ones are an error: a tensor with values has none.
pub fn shape(tensor: &TensorProto) -> Result<Vec<usize>> {
    let Some(shape) = &tensor.tensor_shape else {
        return Ok(Vec::new());
    };
    let extents = shape.dim.iter().map(|dim| usize::try_from(dim.size));
    match extents.collect() {
        Ok(extents) if !shape.unknown_rank => Ok(extents),
        _ => Err(bad("the shape of a tensor is not known".to_owned())),
    }
}

/// The elements of a tensor; as many as its shape says.
///
/// ```
/// use trainspec_formats::events::{Elements, elements};
/// use trainspec_formats::proto::{DataType, TensorProto};
///
/// let tensor = TensorProto {
///     dtype: DataType::DtFloat.into(),
///     tensor_content: 0.5_f32.to_le_bytes().to_vec(),
///     ..Default::default()
/// };
/// assert_eq!(elements(&tensor)?, Elements::Floats(vec![0.5]));
/// # Ok::<(), trainspec_formats::FormatError>(())
/// ```
pub fn elements(tensor: &TensorProto) -> Result<Elements> {
    let shape = shape(tensor)?;
    let count = shape
        .iter()
        .try_fold(1_usize, |count, &extent| count.checked_mul(extent))
        .ok_or_else(|| bad(format!("a tensor of shape {shape:?} is too large")))?;
    let unknown = || {
        let cause = format!("tensors of type {} have no values here", tensor.dtype);
        FormatError::new(Code::Unimplemented, FileKind::Events, cause)
    };
    let dtype = DataType::try_from(tensor.dtype).map_err(|_| unknown())?;
    let content = &tensor.tensor_content[..];
    let half_bits = || tensor.half_val.iter().map(|&bits| bits as u16);
    Ok(match dtype {
        DataType::DtHalf => {
            let list = half_bits().map(|bits| f16::from_bits(bits).to_f64());
            Elements::Floats(all(
                count,
                content,
                |b| f16::from_le_bytes(b).to_f64(),
                list,
            )?)
        }
        DataType::DtBfloat16 => {
            let list = half_bits().map(|bits| bf16::from_bits(bits).to_f64());
            Elements::Floats(all(
                count,
                content,
                |b| bf16::from_le_bytes(b).to_f64(),
                list,
            )?)
        }
        DataType::DtFloat => {
            let list = tensor.float_val.iter().copied().map(f64::from);
            Elements::Floats(all(count, content, |b| f32::from_le_bytes(b).into(), list)?)
        }
        DataType::DtDouble => {
            let list = tensor.double_val.iter().copied();
            Elements::Floats(all(count, content, f64::from_le_bytes, list)?)
        }
        DataType::DtInt8 | DataType::DtQint8 => {
            let list = tensor.int_val.iter().copied().map(i64::from);
            Elements::Integers(all(count, content, |b| i8::from_le_bytes(b).into(), list)?)
        }
        DataType::DtUint8 | DataType::DtQuint8 => {
            let list = tensor.int_val.iter().copied().map(i64::from);
            Elements::Integers(all(count, content, |b| u8::from_le_bytes(b).into(), list)?)
        }
        DataType::DtInt16 | DataType::DtQint16 => {
            let list = tensor.int_val.iter().copied().map(i64::from);
            Elements::Integers(all(count, content, |b| i16::from_le_bytes(b).into(), list)?)
        }
        DataType::DtUint16 | DataType::DtQuint16 => {
            let list = tensor.int_val.iter().copied().map(i64::from);
            Elements::Integers(all(count, content, |b| u16::from_le_bytes(b).into(), list)?)
        }
        DataType::DtInt32 | DataType::DtQint32 => {
            let list = tensor.int_val.iter().copied().map(i64::from);
            Elements::Integers(all(count, content, |b| i32::from_le_bytes(b).into(), list)?)
        }
        DataType::DtUint32 => {
            let list = tensor.uint32_val.iter().copied().map(i64::from);
            Elements::Integers(all(count, content, |b| u32::from_le_bytes(b).into(), list)?)
        }
        DataType::DtInt64 => {
            let list = tensor.int64_val.iter().copied();
            Elements::Integers(all(count, content, i64::from_le_bytes, list)?)
        }
        DataType::DtUint64 => {
            let list = tensor.uint64_val.iter().copied();
            Elements::Unsigned(all(count, content, u64::from_le_bytes, list)?)
        }
        DataType::DtBool => {
            let list = tensor.bool_val.iter().copied().map(i64::from);
            Elements::Integers(all(count, content, |[b]: [u8; 1]| (b != 0).into(), list)?)
        }
        DataType::DtComplex64 => {
            let list = tensor.scomplex_val.chunks_exact(2);
            let list = list.map(|pair| [pair[0].into(), pair[1].into()]);
            Elements::Complex(all(
                count,
                content,
                |b: [u8; 8]| halves(b, f32::from_le_bytes),
                list,
            )?)
        }
        DataType::DtComplex128 => {
            let list = tensor.dcomplex_val.chunks_exact(2);
            let list = list.map(|pair| [pair[0], pair[1]]);
            Elements::Complex(all(
                count,
                content,
                |b: [u8; 16]| halves(b, f64::from_le_bytes),
                list,
            )?)
        }
        DataType::DtString => {
            let list = tensor.string_val.iter().cloned();
            if !content.is_empty() {
                return Err(bad("a tensor of strings has bytes beside them".to_owned()));
            }
            Elements::Strings(all(count, &[], |_: [u8; 1]| Vec::new(), list)?)
        }
        _ => return Err(unknown()),
    })
}

/// A tensor of strings.
pub(super) fn strings(shape: &[usize], strings: Vec<Vec<u8>>) -> TensorProto {
    TensorProto {
        dtype: DataType::DtString.into(),
        tensor_shape: Some(shape_of(shape)),
        string_val: strings,
        ..Default::default()
    }
}

/// A tensor of some type whose elements are given as bytes.
pub(super) fn content(dtype: DataType, shape: &[usize], bytes: Vec<u8>) -> TensorProto {
    TensorProto {
        dtype: dtype.into(),
        tensor_shape: Some(shape_of(shape)),
        tensor_content: bytes,
        ..Default::default()
    }
}

fn shape_of(extents: &[usize]) -> TensorShapeProto {
    let dim = |&size: &usize| Dim {
        size: i64::try_from(size).expect("memory has no more elements"),
        name: String::new(),
    };
    TensorShapeProto {
        dim: extents.iter().map(dim).collect(),
        unknown_rank: false,
    }
}

/// As many elements as there must be, from the bytes, or from the list and then its last one again and again; zeros where
/// there is neither.
fn all<const N: usize, T: Clone + Default>(
    count: usize,
    content: &[u8],
    one: impl Fn([u8; N]) -> T,
    list: impl ExactSizeIterator<Item = T>,
) -> Result<Vec<T>> {
    if !content.is_empty() {
        let (chunks, rest) = content.as_chunks::<N>();
        return match chunks.len() == count && rest.is_empty() {
            true => Ok(chunks.iter().map(|&chunk| one(chunk)).collect()),
            false => Err(bad(format!(
                "a tensor of {count} elements has {} bytes",
                content.len()
            ))),
        };
    }
    let given = list.len();
    if given > count {
        return Err(bad(format!("a tensor of {count} elements has {given}")));
    }
    if given < count && count > FILLED {
        let cause = format!("a tensor of {count} elements is filled up from {given}");
        return Err(FormatError::new(
            Code::ResourceExhausted,
            FileKind::Events,
            cause,
        ));
    }
    let mut values: Vec<T> = list.collect();
    let last = values.last().cloned().unwrap_or_default();
    values.resize(count, last);
    Ok(values)
}

fn halves<const N: usize, const M: usize, T: Into<f64>>(
    bytes: [u8; N],
    one: impl Fn([u8; M]) -> T,
) -> [f64; 2] {
    std::array::from_fn(|part| one(std::array::from_fn(|i| bytes[part * M + i])).into())
}

fn bad(cause: String) -> FormatError {
    FormatError::data_loss(FileKind::Events, cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(dtype: DataType, count: i64) -> TensorProto {
        TensorProto {
            dtype: dtype.into(),
            tensor_shape: Some(TensorShapeProto {
                dim: vec![Dim {
                    size: count,
                    name: String::new(),
                }],
                unknown_rank: false,
            }),
            ..Default::default()
        }
    }

    #[test]
    fn a_short_list_is_filled_up_and_a_long_one_refused() {
        let mut tensor = filled(DataType::DtInt32, 3);
        tensor.int_val = vec![1, -2];
        assert_eq!(
            elements(&tensor).unwrap(),
            Elements::Integers(vec![1, -2, -2])
        );
        tensor.int_val = vec![1, 2, 3, 4];
        assert!(elements(&tensor).is_err());
        tensor.int_val.clear();
        assert_eq!(elements(&tensor).unwrap(), Elements::Integers(vec![0; 3]));
    }

    #[test]
    fn shapes_beyond_the_file_are_refused() {
        for count in [-1, i64::MAX, 1 << 40] {
            let mut tensor = filled(DataType::DtFloat, count);
            tensor.float_val = vec![1.0];
            assert!(elements(&tensor).is_err());
            tensor.tensor_content = vec![0; 4];
            assert!(elements(&tensor).is_err());
        }
    }

    #[test]
    fn parts_of_complex_numbers_stay_together() {
        let mut tensor = filled(DataType::DtComplex64, 2);
        tensor.tensor_content = [1.0_f32, 2.0, 3.0, 4.0]
            .iter()
            .flat_map(|part| part.to_le_bytes())
            .collect();
        let expected = Elements::Complex(vec![[1.0, 2.0], [3.0, 4.0]]);
        assert_eq!(elements(&tensor).unwrap(), expected);
        tensor.tensor_content.clear();
        tensor.scomplex_val = vec![1.0, 2.0, 3.0, 4.0];
        assert_eq!(elements(&tensor).unwrap(), expected);
    }
}
