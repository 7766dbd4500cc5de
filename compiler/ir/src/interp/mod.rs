//! The reference interpreter: the semantics of a graph.
//!
//! In: a graph, its inputs and its state. Out: its results and the new state, or an error with the span it comes from.
//! It computes floats in f64 and rounds each result to its element type; denormals are flushed to zero (FTZ).
//! It is allowed to be slow.

mod array;
mod evaluate;
mod footprint;
mod run;
mod trace;

pub(crate) use array::each;
pub use array::{Array, round, wrap};
pub use evaluate::{EvalError, Evaluation, NotFinite};
pub use footprint::peak_bytes;
pub use run::{Outcome, RunError, run};
pub use trace::{FirstNotFinite, Flaw, FlawSource, FlawedRows, checked_part, first_not_finite};
