//! Tensors as values, and as `TensorProto` messages.
//!
//! In: numbers or strings with a shape, or a [`TensorProto`](crate::proto::TensorProto), which has several encodings of its elements.
//! Out: a [`Tensor`], which has one; and the reverse. Checkpoints, events and examples all use these. Leaves alone: resources and
//! variants in messages, which mean something only inside a program.

mod bytes_column;
mod dtype;
mod message;
mod value;

pub use bytes_column::{BytesColumn, BytesIter};
pub use dtype::DType;
pub use value::{Element, Elements, ElementsView, Tensor, TensorView};

pub(crate) use value::{MAX_RANK, count, rank_error, swap_bytes};
