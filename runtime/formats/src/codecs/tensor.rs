//! Tensors as messages.

use prost::Message;

use super::raw::element_size;
use crate::error::{Code, FileKind, FormatError, Result};
use crate::proto::tensor_shape_proto::Dim;
use crate::proto::{DataType, TensorProto, TensorShapeProto};

/// How many bytes a tensor may take that is made of a message with fewer elements than it says.
const MOST_FILLED: usize = 1 << 30;

/// A tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    /// The type of its elements.
    pub dtype: DataType,
    /// Its extents.
    pub shape: Vec<usize>,
    /// Its elements, the last dimension running fastest.
    pub elements: Elements,
}

/// The elements of a tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Elements {
    /// Numbers as they lie in memory, the lowest byte first.
    Numbers(Vec<u8>),
    /// Strings of bytes.
    Strings(Vec<Vec<u8>>),
}

/// The bytes of a tensor as a message, which are those that TensorFlow writes.
pub fn serialize_tensor(tensor: &Tensor) -> Result<Vec<u8>> {
    let count = count(&tensor.shape)?;
    let (mut content, mut strings) = (Vec::new(), Vec::new());
    let found = match (&tensor.elements, element_size(tensor.dtype)) {
        (Elements::Numbers(numbers), Some(size)) if numbers.len() % size == 0 => {
            content.clone_from(numbers);
            numbers.len() / size
        }
        (Elements::Strings(given), None) if tensor.dtype == DataType::DtString => {
            strings.clone_from(given);
            given.len()
        }
        _ => {
            return Err(invalid(format!(
                "its elements are no {}",
                name(tensor.dtype)
            )));
        }
    };
    if found != count {
        let shape = &tensor.shape;
        return Err(invalid(format!(
            "it has {found} elements, and its shape is {shape:?}"
        )));
    }
    let dims = tensor.shape.iter().map(|extent| Dim {
        size: *extent as i64,
        name: String::new(),
    });
    let message = TensorProto {
        dtype: tensor.dtype.into(),
        tensor_shape: Some(TensorShapeProto {
            dim: dims.collect(),
            unknown_rank: false,
        }),
        tensor_content: content,
        string_val: strings,
        ..TensorProto::default()
    };
    Ok(message.encode_to_vec())
}

/// The tensor of such a message, however it holds its elements. A list that is too short is filled up with its last element.
pub fn parse_tensor(bytes: &[u8]) -> Result<Tensor> {
    let message =
        TensorProto::decode(bytes).map_err(|e| invalid(format!("this is no tensor: {e}")))?;
    let dtype = DataType::try_from(message.dtype)
        .map_err(|_| invalid(format!("there is no type of number {}", message.dtype)))?;
    let shape = message.tensor_shape.as_ref();
    if shape.is_some_and(|shape| shape.unknown_rank) {
        return Err(invalid("its shape is not known".to_owned()));
    }
    let extents = shape.map_or(&[][..], |shape| &shape.dim).iter();
    let shape: Vec<usize> = extents
        .map(|dim| usize::try_from(dim.size))
        .collect::<std::result::Result<_, _>>()
        .map_err(|_| invalid("an extent of its shape is not known".to_owned()))?;
    let count = count(&shape)?;
    let elements = match element_size(dtype) {
        None if dtype == DataType::DtString => {
            Elements::Strings(strings(message.string_val, count)?)
        }
        None => return Err(invalid(format!("it is {}, which is no value", name(dtype)))),
        Some(size) => Elements::Numbers(numbers(message, dtype, size, count)?),
    };
    Ok(Tensor {
        dtype,
        shape,
        elements,
    })
}

fn strings(mut strings: Vec<Vec<u8>>, count: usize) -> Result<Vec<Vec<u8>>> {
    if strings.len() > count {
        return Err(invalid(format!(
            "it has {} elements, and its shape {count}",
            strings.len()
        )));
    }
    if strings.len() < count {
        let last = strings.last().cloned().unwrap_or_default();
        admit(count - strings.len(), size_of::<Vec<u8>>() + last.len())?;
        strings.resize(count, last);
    }
    Ok(strings)
}

fn numbers(message: TensorProto, dtype: DataType, size: usize, count: usize) -> Result<Vec<u8>> {
    use DataType::*;
    if !message.tensor_content.is_empty() {
        let found = message.tensor_content.len();
        return match count.checked_mul(size) {
            Some(bytes) if bytes == found => Ok(message.tensor_content),
            _ => Err(invalid(format!(
                "it has {found} bytes, and {count} elements of {size} bytes by its shape"
            ))),
        };
    }
    let mut bytes: Vec<u8> = match dtype {
        DtFloat => message
            .float_val
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .collect(),
        DtDouble => message
            .double_val
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .collect(),
        DtComplex64 => message
            .scomplex_val
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .collect(),
        DtComplex128 => message
            .dcomplex_val
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .collect(),
        DtInt64 => message
            .int64_val
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .collect(),
        DtUint64 => message
            .uint64_val
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .collect(),
        DtUint32 => message
            .uint32_val
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .collect(),
        DtBool => message.bool_val.iter().map(|v| u8::from(*v)).collect(),
        DtFloat8E5m2 | DtFloat8E4m3fn => message.float8_val,
        DtHalf | DtBfloat16 => low_bytes(&message.half_val, size),
        // All other integers, in as many of their low bytes as they have.
        _ => low_bytes(&message.int_val, size),
    };
    let found = bytes.len() / size;
    if !bytes.len().is_multiple_of(size) || found > count {
        return Err(invalid(format!(
            "it has {found} elements, and its shape {count}"
        )));
    }
    if found < count {
        admit(count - found, size)?;
        let last: Vec<u8> = match bytes.len().checked_sub(size) {
            Some(start) => bytes[start..].to_vec(),
            None => vec![0; size],
        };
        (found..count).for_each(|_| bytes.extend_from_slice(&last));
    }
    Ok(bytes)
}

fn low_bytes(values: &[i32], size: usize) -> Vec<u8> {
    let bytes = values.iter().map(|value| value.to_le_bytes());
    bytes
        .flat_map(|bytes| bytes.into_iter().take(size))
        .collect()
}

/// Refuses to fill up without bound.
fn admit(count: usize, size: usize) -> Result<()> {
    match count.checked_mul(size) {
        Some(bytes) if bytes <= MOST_FILLED => Ok(()),
        _ => Err(FormatError::new(
            Code::ResourceExhausted,
            FileKind::Example,
            format!(
                "{count} elements of the tensor are not in the message, and are too many to fill in"
            ),
        )),
    }
}

fn count(shape: &[usize]) -> Result<usize> {
    let product = shape
        .iter()
        .try_fold(1_usize, |n, extent| n.checked_mul(*extent));
    product.ok_or_else(|| invalid(format!("the shape {shape:?} is too large")))
}

fn name(dtype: DataType) -> &'static str {
    dtype.as_str_name()
}

fn invalid(cause: String) -> FormatError {
    FormatError::invalid(FileKind::Example, cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_list_is_filled_up_but_not_without_bound() {
        let message = |extent: i64| {
            TensorProto {
                dtype: DataType::DtInt16.into(),
                tensor_shape: Some(TensorShapeProto {
                    dim: vec![Dim {
                        size: extent,
                        name: String::new(),
                    }],
                    unknown_rank: false,
                }),
                int_val: vec![1, -2],
                ..TensorProto::default()
            }
            .encode_to_vec()
        };
        let tensor = parse_tensor(&message(3)).unwrap();
        assert_eq!(
            tensor.elements,
            Elements::Numbers(vec![1, 0, 0xfe, 0xff, 0xfe, 0xff])
        );
        let error = parse_tensor(&message(1 << 40)).unwrap_err();
        assert_eq!(error.code, Code::ResourceExhausted);
        assert_eq!(
            parse_tensor(&message(1)).unwrap_err().code,
            Code::InvalidArgument
        );
        assert_eq!(
            parse_tensor(&message(-1)).unwrap_err().code,
            Code::InvalidArgument
        );
    }
}
