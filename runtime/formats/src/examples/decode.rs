//! Decoding of single `Example` and `SequenceExample` messages.

use prost::{Message, Name};

use super::{Example, SequenceExample};
use crate::bounded;
use crate::error::{Code, FileKind, FormatError, Result};

/// The approximate maximum memory of a decoded message in bytes.
pub const MAX_DECODED_BYTES: usize = 256 << 20;

/// Decodes an example. One that would take more than [`MAX_DECODED_BYTES`] is refused as [`ResourceExhausted`](Code::ResourceExhausted); an
/// [`ExampleParser`](super::ExampleParser) reads it.
pub fn decode(bytes: &[u8]) -> Result<Example> {
    message(bytes)
}

/// Decodes a sequence example, bounded by [`MAX_DECODED_BYTES`].
pub fn decode_sequence(bytes: &[u8]) -> Result<SequenceExample> {
    message(bytes)
}

fn message<M: Message + Name + Default>(bytes: &[u8]) -> Result<M> {
    bounded::decode(FileKind::Example, bytes, MAX_DECODED_BYTES as u64).map_err(|e| match e.code {
        // An invalid argument and not data loss: the file itself is intact.
        Code::DataLoss => FormatError::invalid(
            FileKind::Example,
            format!("this is no example: {}", e.cause),
        ),
        _ => e,
    })
}
