//! The interpreter: what a graph means, plainly.
//!
//! In: a graph, its inputs and its state. Out: its results and the new state, or a fault with the place it comes from.
//! It computes floats in f64 and rounds each result to its element type; what is too small to be normal
//! becomes zero. It is allowed to be slow.

mod array;
mod evaluate;
mod run;

pub(crate) use array::each;
pub use array::{Array, round, wrap};
pub use evaluate::{EvalError, Evaluation};
pub use run::{Outcome, RunError, run};
