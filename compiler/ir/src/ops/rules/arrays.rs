//! Reference evaluation of gathers and scatters: dispatch on element type, and index checks.

use ndarray::{ArcArray, IxDyn};

use crate::interp::EvalError;

/// Evaluates an expression for two arrays of one element type, whichever it is: `both!((x, y), (a, b) => a.len() + b.len())`.
macro_rules! both {
    (($x:expr, $y:expr), ($a:ident, $b:ident) => $body:expr) => {
        match ($x, $y) {
            ($crate::interp::Array::Float($a), $crate::interp::Array::Float($b)) => $body,
            ($crate::interp::Array::Int($a), $crate::interp::Array::Int($b)) => $body,
            ($crate::interp::Array::Bool($a), $crate::interp::Array::Bool($b)) => $body,
            (x, y) => panic!("elements of one type were expected: {x:?}, {y:?}"),
        }
    };
}
pub(in crate::ops) use both;

/// Row indices, checked to be below `length`.
pub(in crate::ops) fn row_indices(
    indices: &ArcArray<i64, IxDyn>,
    length: usize,
) -> Result<Vec<usize>, EvalError> {
    let checked = |index: &i64| match usize::try_from(*index) {
        Ok(row) if row < length => Ok(row),
        _ => Err(EvalError(format!(
            "index {index} is out of range 0..{length}"
        ))),
    };
    indices.iter().map(checked).collect()
}
