//! Tensors as serialized `TensorProto` messages (`tf.io.serialize_tensor`, `parse_tensor`).

use prost::Message;

use crate::bounded::{DEFAULT_MEMORY_LIMIT, decode};
use crate::error::{Code, FileKind, FormatError, Result};
use crate::tensor::Tensor;

/// Serializes a tensor to the bytes that TensorFlow writes.
pub fn serialize_tensor(tensor: &Tensor) -> Result<Vec<u8>> {
    let message = tensor.clone().into_message().map_err(of_example)?;
    Ok(message.encode_to_vec())
}

/// Parses a serialized tensor, in any encoding of its elements. A list that is too short is filled up with its last element.
///
/// ```
/// use trainspec_formats::codecs::{parse_tensor, serialize_tensor};
/// use trainspec_formats::tensor::Tensor;
///
/// let tensor = Tensor::from_values(&[2], &[0.5_f32, 1.5])?;
/// assert_eq!(parse_tensor(&serialize_tensor(&tensor)?)?, tensor);
/// # Ok::<(), trainspec_formats::FormatError>(())
/// ```
pub fn parse_tensor(bytes: &[u8]) -> Result<Tensor> {
    let message =
        decode(FileKind::Example, bytes, DEFAULT_MEMORY_LIMIT).map_err(|e| match e.code {
            Code::DataLoss => {
                FormatError::invalid(FileKind::Example, format!("this is no tensor: {}", e.cause))
            }
            _ => e,
        })?;
    Tensor::from_message(message).map_err(of_example)
}

fn of_example(error: FormatError) -> FormatError {
    FormatError {
        kind: FileKind::Example,
        ..error
    }
}
