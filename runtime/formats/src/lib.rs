//! TensorFlow's files without TensorFlow.
//!
//! In: bytes of record files, checkpoints and event files. Out: records, tensors and summaries; and the reverse. Whatever is
//! read may be damaged or hostile: lengths are checked against the file before anything is allocated, and what is wrong is a
//! [`FormatError`] that names the file, the place and the cause. Leaves alone: what a checkpoint means to a model.

pub mod bounded;
pub mod checkpoint;
pub mod codecs;
pub mod crc;
pub mod error;
pub mod events;
pub mod examples;
pub mod files;
pub mod proto;
pub mod records;
pub mod table;
pub mod tensor;
pub mod wire;

pub use error::{Code, FileKind, FormatError, Result};

/// The examples of the front page are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
