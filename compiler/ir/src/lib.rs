//! What a Trainspec program computes: tensor types, dimensions that compare as polynomials, and the table of operations.
//!
//! Pure data and pure functions: nothing here opens a file, reads a clock or knows the syntax of the language. Shape and
//! dtype rules live with the operations, so that the checker and every later stage ask the same rule.

pub mod ops;
pub mod size;
pub mod span;
pub mod types;

pub use size::Size;
pub use span::{FileId, Span};
pub use types::{Class, Count, DType, Dim, Shape, TensorType};
