//! Decoders of features: raw bytes, CSV, serialized tensors.
//!
//! In: byte strings, as features hold them. Out: tensors and columns; what TensorFlow's `decode_raw`, `decode_csv`,
//! `serialize_tensor` and `parse_tensor` give.

mod csv;
mod raw;
mod tensor;

pub use csv::{CsvColumn, CsvDefault, CsvOptions, CsvReader, decode_csv};
pub use raw::{RawOptions, decode_raw};
pub use tensor::{parse_tensor, serialize_tensor};
