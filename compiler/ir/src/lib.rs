//! The intermediate representation (IR) of a Trainspec program: tensor types with symbolic dimensions, the table of operations,
//! the SSA graph with reverse-mode autodiff and passes, fused kernels and the memory plan.
//!
//! Pure data and pure functions: nothing here opens a file, reads a clock or knows the syntax of the language. Shape and
//! dtype rules live with the operations, so that the checker and every later stage ask the same rule.

pub mod autodiff;
pub mod build;
mod count_name;
pub mod fuse;
pub mod graph;
pub mod interp;
pub mod kernel;
pub mod ops;
pub mod passes;
pub mod philox;
pub mod plan;
pub mod size;
pub mod span;
pub mod tensor;
pub mod text;
pub mod types;
pub mod vectorize;
pub mod window;

pub use count_name::CountName;
pub use size::Size;
pub use span::{FileId, Span};
pub use tensor::Tensor;
pub use types::{Class, Count, DType, Dim, Shape, TensorType};
