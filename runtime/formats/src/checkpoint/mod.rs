//! Checkpoints: TensorFlow's bundles, tables of the first version, object graphs, and what lists them.

pub mod bundle;
mod dtype;
mod key;
mod slice;
mod tensor;

pub use bundle::{Bundle, BundleWriter};
pub use dtype::DType;
pub use slice::{Extent, Slice};
pub use tensor::{Element, Elements, ElementsView, Tensor, TensorView};
