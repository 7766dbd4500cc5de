//! TensorFlow's file formats without TensorFlow: TFRecord, `tf.train.Example`, checkpoints (tensor bundles), event files.
//!
//! In: bytes of record files, checkpoints and event files. Out: records, tensors and summaries; and the reverse. Whatever is
//! read may be damaged or hostile: lengths are checked against the file before anything is allocated, and damage is a
//! [`FormatError`] that names the file, the offset and the cause. Leaves alone: what a checkpoint means to a model.

pub mod arrays;
pub mod bounded;
pub mod checkpoint;
pub mod clock;
pub mod codecs;
pub mod crc;
pub mod error;
pub mod events;
pub mod examples;
pub mod files;
pub mod glob;
mod memory;
pub mod proto;
pub mod records;
pub mod storage;
pub mod table;
pub mod tensor;
pub mod wire;

pub use error::{Code, FileKind, FormatError, Result};

/// Runs the examples of the README as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
