//! Conversion between tensors and `TensorProto`.
//!
//! A message has its elements as raw bytes (`tensor_content`) or in a repeated field, of which each type has one (`float_val`,
//! `int_val`, ...). Packed and unpacked fields decode alike.

use crate::error::{Code, FileKind, FormatError, Result};
use crate::memory;
use crate::proto::tensor_shape_proto::Dim;
use crate::proto::{TensorProto, TensorShapeProto};
use crate::tensor::{BytesColumn, DType, Elements, Tensor};
use crate::wire::WireReader;

/// The maximum size of a tensor whose message has fewer elements than its shape.
const MAX_FILLED_BYTES: usize = 1 << 30;

impl Tensor {
    /// The tensor of a message, in any encoding of its elements. A list that is too short is filled up with its last element, an
    /// empty one with zeros or empty strings; but not beyond 1 GiB, as the message does not hold them.
    ///
    /// ```
    /// use trainspec_formats::proto::TensorProto;
    /// use trainspec_formats::tensor::{DType, Tensor};
    ///
    /// let message = TensorProto {
    ///     dtype: DType::Float32.number(),
    ///     float_val: vec![0.5],
    ///     ..Default::default()
    /// };
    /// let tensor = Tensor::from_message(message)?;
    /// assert_eq!(tensor, Tensor::scalar(0.5_f32));
    /// # Ok::<(), trainspec_formats::FormatError>(())
    /// ```
    pub fn from_message(message: TensorProto) -> Result<Tensor> {
        let dtype = DType::from_number(message.dtype)
            .ok_or_else(|| invalid(format!("there is no type of number {}", message.dtype)))?;
        let shape = extents(&message)?;
        // As in TensorFlow, an extent of zero allows any extents after it, and no overflow before it.
        let count = shape.iter().try_fold(1_usize, |n, &d| n.checked_mul(d));
        let count = count.ok_or_else(|| invalid(format!("the shape {shape:?} is too large")))?;
        match (dtype, dtype.size()) {
            (DType::String, _) => Tensor::strings(&shape, strings(message, count)?),
            (_, Some(size)) => Tensor::new(dtype, &shape, numbers(message, dtype, size, count)?),
            (_, None) => Err(invalid(format!("it is {dtype}, which is no value"))),
        }
    }

    /// The message of a tensor, as TensorFlow serializes it: numbers as `tensor_content`, strings as `string_val`. Variants, which
    /// a checkpoint may have, are refused.
    ///
    /// ```
    /// use trainspec_formats::tensor::Tensor;
    ///
    /// let tensor = Tensor::from_values(&[2], &[1_i16, -1])?;
    /// let message = tensor.clone().into_message()?;
    /// assert_eq!(message.tensor_content, [1, 0, 0xff, 0xff]);
    /// assert_eq!(Tensor::from_message(message)?, tensor);
    /// # Ok::<(), trainspec_formats::FormatError>(())
    /// ```
    pub fn into_message(self) -> Result<TensorProto> {
        let dtype = self.dtype();
        if dtype.size().is_none() && dtype != DType::String {
            return Err(invalid(format!("it is {dtype}, which is no value")));
        }
        let dims = self.shape().iter().map(|extent| {
            Ok(Dim {
                size: i64::try_from(*extent)
                    .map_err(|_| invalid(format!("the shape {:?} is too large", self.shape())))?,
                name: String::new(),
            })
        });
        let shape = TensorShapeProto {
            dim: dims.collect::<Result<_>>()?,
            unknown_rank: false,
        };
        let (content, strings) = match self.into_elements() {
            Elements::Bytes(bytes) => (bytes, Vec::new()),
            Elements::Strings(strings) => {
                let overhead = strings.len().saturating_mul(size_of::<Vec<u8>>() + 16);
                memory::check(
                    FileKind::Other,
                    overhead.saturating_add(strings.data().len()),
                )?;
                (Vec::new(), strings.iter().map(<[u8]>::to_vec).collect())
            }
        };
        Ok(TensorProto {
            dtype: dtype.number(),
            tensor_shape: Some(shape),
            tensor_content: content,
            string_val: strings,
            ..TensorProto::default()
        })
    }
}

/// The shape of a message. Unknown extents are an error: a tensor with values has none.
fn extents(message: &TensorProto) -> Result<Vec<usize>> {
    let Some(shape) = &message.tensor_shape else {
        return Ok(Vec::new());
    };
    if shape.unknown_rank {
        return Err(invalid("its shape is not known".to_owned()));
    }
    let extents = shape.dim.iter().map(|dim| usize::try_from(dim.size));
    extents
        .collect::<std::result::Result<_, _>>()
        .map_err(|_| invalid("an extent of its shape is not known".to_owned()))
}

fn strings(message: TensorProto, count: usize) -> Result<BytesColumn> {
    if !message.tensor_content.is_empty() {
        return joined_strings(&message.tensor_content, count)?
            .ok_or_else(|| invalid(format!("its bytes are not those of {count} strings")));
    }
    let listed = &message.string_val;
    if listed.len() > count {
        return Err(too_many(listed.len(), count));
    }
    let last = listed.last().map_or(&b""[..], Vec::as_slice);
    let missing = count - listed.len();
    if missing > 0 {
        check_filled_size(missing, size_of::<u64>() + last.len())?;
    }
    let mut strings = BytesColumn::default();
    let bytes: usize = listed.iter().map(Vec::len).sum();
    strings.try_reserve(FileKind::Other, count, bytes + missing * last.len())?;
    let filled = std::iter::repeat_n(last, missing);
    for string in listed.iter().map(Vec::as_slice).chain(filled) {
        strings.try_push(FileKind::Other, string)?;
    }
    Ok(strings)
}

/// Strings in `tensor_content`: the lengths as varints, then the bytes. `None` where the bytes are others.
fn joined_strings(bytes: &[u8], count: usize) -> Result<Option<BytesColumn>> {
    // Each length takes a byte or more.
    if count > bytes.len() {
        return Ok(None);
    }
    let mut wire = WireReader::new(bytes);
    for _ in 0..count {
        if wire.varint().is_err() {
            return Ok(None);
        }
    }
    let mut rest = &bytes[wire.position()..];
    let mut strings = BytesColumn::default();
    strings.try_reserve(FileKind::Other, count, rest.len())?;
    // Lengths are decoded a second time with the strings, which takes no memory.
    let mut lengths = WireReader::new(bytes);
    for _ in 0..count {
        let length = lengths
            .varint()
            .ok()
            .and_then(|length| u32::try_from(length).ok());
        let Some((string, tail)) = length.and_then(|length| rest.split_at_checked(length as usize))
        else {
            return Ok(None);
        };
        strings.try_push(FileKind::Other, string)?;
        rest = tail;
    }
    Ok(rest.is_empty().then_some(strings))
}

fn numbers(message: TensorProto, dtype: DType, size: usize, count: usize) -> Result<Vec<u8>> {
    if !message.tensor_content.is_empty() {
        let found = message.tensor_content.len();
        return match count.checked_mul(size) {
            Some(bytes) if bytes == found => Ok(message.tensor_content),
            _ => Err(invalid(format!(
                "it has {found} bytes, and {count} elements of {size} bytes by its shape"
            ))),
        };
    }
    let mut bytes = list(message, dtype, size)?;
    let found = bytes.len() / size;
    if !bytes.len().is_multiple_of(size) || found > count {
        return Err(too_many(found, count));
    }
    if found < count {
        check_filled_size(count - found, size)?;
        let last: Vec<u8> = match bytes.len().checked_sub(size) {
            Some(start) => bytes[start..].to_vec(),
            None => vec![0; size],
        };
        memory::reserve(FileKind::Other, &mut bytes, (count - found) * size)?;
        (found..count).for_each(|_| bytes.extend_from_slice(&last));
    }
    Ok(bytes)
}

/// The repeated field of a type, as bytes.
fn list(message: TensorProto, dtype: DType, size: usize) -> Result<Vec<u8>> {
    fn all<const N: usize, T: Copy>(values: &[T], bytes: impl Fn(T) -> [u8; N]) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        memory::reserve(FileKind::Other, &mut out, N * values.len())?;
        values.iter().for_each(|value| out.extend(bytes(*value)));
        Ok(out)
    }
    match dtype {
        DType::Float32 => all(&message.float_val, f32::to_le_bytes),
        DType::Float64 => all(&message.double_val, f64::to_le_bytes),
        DType::Complex64 => all(&message.scomplex_val, f32::to_le_bytes),
        DType::Complex128 => all(&message.dcomplex_val, f64::to_le_bytes),
        DType::Int64 => all(&message.int64_val, i64::to_le_bytes),
        DType::UInt64 => all(&message.uint64_val, u64::to_le_bytes),
        DType::UInt32 => all(&message.uint32_val, u32::to_le_bytes),
        DType::Bool => all(&message.bool_val, |value| [u8::from(value)]),
        DType::Float16 | DType::BFloat16 => low_bytes(&message.half_val, size),
        DType::Float8E5M2
        | DType::Float8E4M3Fn
        | DType::Float8E4M3Fnuz
        | DType::Float8E4M3B11Fnuz
        | DType::Float8E5M2Fnuz
        | DType::Float4E2M1Fn => Ok(message.float8_val),
        DType::Int32
        | DType::UInt8
        | DType::Int16
        | DType::Int8
        | DType::QInt8
        | DType::QUInt8
        | DType::QInt32
        | DType::QInt16
        | DType::QUInt16
        | DType::UInt16
        | DType::Int4
        | DType::UInt4
        | DType::Int2
        | DType::UInt2 => low_bytes(&message.int_val, size),
        DType::String | DType::Resource | DType::Variant => Ok(Vec::new()),
    }
}

/// Integers truncated to their low bytes.
fn low_bytes(values: &[i32], size: usize) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    memory::reserve(FileKind::Other, &mut out, size * values.len())?;
    for value in values {
        out.extend_from_slice(&value.to_le_bytes()[..size]);
    }
    Ok(out)
}

/// Bounds the filling up.
fn check_filled_size(count: usize, size: usize) -> Result<()> {
    match count.checked_mul(size) {
        Some(bytes) if bytes <= MAX_FILLED_BYTES => Ok(()),
        _ => Err(FormatError::new(
            Code::ResourceExhausted,
            FileKind::Other,
            format!(
                "{count} elements of the tensor are not in the message, and are too many to fill in"
            ),
        )),
    }
}

fn too_many(found: usize, count: usize) -> FormatError {
    invalid(format!("it has {found} elements, and its shape {count}"))
}

fn invalid(cause: String) -> FormatError {
    FormatError::invalid(FileKind::Other, cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(dtype: DType, extent: i64) -> TensorProto {
        TensorProto {
            dtype: dtype.number(),
            tensor_shape: Some(TensorShapeProto {
                dim: vec![Dim {
                    size: extent,
                    name: String::new(),
                }],
                unknown_rank: false,
            }),
            ..TensorProto::default()
        }
    }

    fn values<T: crate::tensor::Element>(message: &TensorProto) -> Vec<T> {
        let tensor = Tensor::from_message(message.clone()).unwrap();
        tensor.to_vec().unwrap()
    }

    fn code(message: &TensorProto) -> Code {
        Tensor::from_message(message.clone()).unwrap_err().code
    }

    #[test]
    fn a_short_list_is_filled_up_and_a_long_one_refused() {
        let mut tensor = message(DType::Int32, 3);
        assert_eq!(values::<i32>(&tensor), [0; 3]);
        tensor.int_val = vec![1, -2];
        assert_eq!(values::<i32>(&tensor), [1, -2, -2]);
        tensor.int_val = vec![1, 2, 3, 4];
        assert_eq!(code(&tensor), Code::InvalidArgument);
    }

    #[test]
    fn filling_up_is_bounded() {
        let mut tensor = message(DType::Int16, 1 << 40);
        tensor.int_val = vec![1, -2];
        assert_eq!(code(&tensor), Code::ResourceExhausted);
        tensor.dtype = DType::String.number();
        assert_eq!(code(&tensor), Code::ResourceExhausted);
        tensor.tensor_content = vec![0; 4];
        assert_eq!(code(&tensor), Code::InvalidArgument);
        for (dtype, extent) in [(DType::Float32, i64::MAX), (DType::Float32, -1)] {
            assert!(Tensor::from_message(message(dtype, extent)).is_err());
        }
        let mut square = message(DType::Float32, 1 << 40);
        let dims = &mut square.tensor_shape.as_mut().unwrap().dim;
        dims.push(dims[0].clone());
        assert_eq!(code(&square), Code::InvalidArgument);
        let dims = &mut square.tensor_shape.as_mut().unwrap().dim;
        dims.push(message(DType::Float32, 0).tensor_shape.unwrap().dim[0].clone());
        assert_eq!(code(&square), Code::InvalidArgument);
        square.tensor_shape.as_mut().unwrap().dim.reverse();
        assert!(Tensor::from_message(square).unwrap().bytes().is_empty());
    }

    #[test]
    fn real_and_imaginary_parts_stay_together() {
        let mut tensor = message(DType::Complex64, 3);
        tensor.scomplex_val = vec![1.0, 2.0, 3.0, 4.0];
        let expected = [[1.0, 2.0], [3.0, 4.0], [3.0, 4.0]];
        assert_eq!(values::<[f32; 2]>(&tensor), expected);
        tensor.scomplex_val.pop();
        assert_eq!(code(&tensor), Code::InvalidArgument);
    }

    #[test]
    fn every_numeric_type_has_a_list_or_tensor_content() {
        for dtype in DType::all() {
            let Some(size) = dtype.size() else {
                continue;
            };
            let mut lists = TensorProto {
                float_val: vec![1.0],
                double_val: vec![1.0],
                int_val: vec![1],
                scomplex_val: vec![1.0, 1.0],
                int64_val: vec![1],
                bool_val: vec![true],
                dcomplex_val: vec![1.0, 1.0],
                half_val: vec![1],
                uint32_val: vec![1],
                uint64_val: vec![1],
                float8_val: vec![1],
                ..message(dtype, 2)
            };
            let listed = Tensor::from_message(lists.clone()).unwrap();
            let (first, second) = listed.bytes().split_at(size);
            assert!(first == second && first != vec![0; size], "{dtype}");
            // `tensor_content` takes precedence over lists.
            lists.tensor_content = (0..2 * size).map(|i| i as u8 & 1).collect();
            let tensor = Tensor::from_message(lists.clone()).unwrap();
            assert_eq!(tensor.bytes(), lists.tensor_content, "{dtype}");
            let again = Tensor::from_message(tensor.clone().into_message().unwrap());
            assert_eq!(again.unwrap(), tensor, "{dtype}");
        }
    }

    #[test]
    fn strings_may_be_tensor_content() {
        let mut tensor = message(DType::String, 2);
        tensor.tensor_content = b"\x01\x02abc".to_vec();
        let read = Tensor::from_message(tensor.clone()).unwrap();
        let expected = Tensor::strings(&[2], vec![b"a".to_vec(), b"bc".to_vec()]).unwrap();
        assert_eq!(read, expected);
        for wrong in [&b"\x01\x02abcd"[..], b"\x01\x02ab", b"\x01", b"\xff\xff"] {
            tensor.tensor_content = wrong.to_vec();
            assert_eq!(code(&tensor), Code::InvalidArgument, "{wrong:?}");
        }
    }

    #[test]
    fn resources_have_no_value() {
        for dtype in [DType::Resource, DType::Variant] {
            assert_eq!(code(&message(dtype, 0)), Code::InvalidArgument);
        }
        let variant = Tensor::of_strings(DType::Variant, &[1], vec![Vec::new()].into()).unwrap();
        assert_eq!(
            variant.into_message().unwrap_err().code,
            Code::InvalidArgument
        );
    }
}
