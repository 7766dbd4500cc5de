//! `tf.train.Example` and `SequenceExample`: named features in a record, parsed into columns of a batch (`tf.io.parse_example`).
//!
//! In: serialized `Example` and `SequenceExample` messages, and a [`Schema`] of the requested features. Out: one column per
//! feature, with all rows concatenated, as TensorFlow's `parse_example` gives it; and messages made of Rust values. Leaves
//! alone: features that the schema does not name, which are skipped without decoding.
//!
//! The wire format decides what a message says: a later entry of the same key wins, lists in several pieces are concatenated. Where
//! TensorFlow's own parser differs stands in `docs/files.md`.
//!
//! ```
//! use trainspec_formats::examples::{Column, Dtype, ExampleParser, FeatureSpec, Schema, encode, example};
//!
//! # fn main() -> trainspec_formats::Result<()> {
//! let schema = Schema::new([
//!     ("x", FeatureSpec::fixed(Dtype::Float, [2])),
//!     ("tags", FeatureSpec::var_len(Dtype::Bytes)),
//! ])?;
//! let mut parser = ExampleParser::new(&schema);
//! parser.push(&encode(&example([("x", [1.0_f32, 2.0].into()), ("tags", ["a", "b"].into())])))?;
//! parser.push(&encode(&example([("x", [3.0_f32, 4.0].into())])))?;
//!
//! let batch = parser.finish()?;
//! let Some(Column::Dense(x)) = batch.column("x") else { unreachable!() };
//! assert_eq!(x.shape(), [2, 2]);
//! assert_eq!(x.values.floats(), Some(&[1.0, 2.0, 3.0, 4.0][..]));
//! # Ok(())
//! # }
//! ```

mod batch;
mod build;
mod decode;
mod encode;
mod entries;
mod list;
mod parse;
mod ragged;
mod schema;
mod sequence;
mod sparse;
mod values;

pub use crate::tensor::BytesColumn;
pub use batch::{Batch, Column, Dense, VarLen};
pub use build::{example, sequence_example};
pub use decode::{MAX_DECODED_BYTES, decode, decode_sequence};
pub use encode::{encode, encode_into, encode_sequence, encode_sequence_into};
pub use parse::ExampleParser;
pub use ragged::{Level, Ragged};
pub use schema::{Dtype, FeatureSpec, Partition, Schema};
pub use sequence::{ListColumn, SequenceBatch, SequenceParser, SequenceSchema, Steps, VarLenSteps};
pub use sparse::Sparse;
pub use values::Values;

pub use crate::proto::{
    BytesList, Example, Feature, FeatureList, FeatureLists, Features, FloatList, Int64List,
    SequenceExample,
};
