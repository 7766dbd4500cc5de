//! Pieces of the evaluation of primitives that move elements.

use ndarray::{ArcArray, IxDyn};

use crate::interp::EvalError;

/// Does the same to two arrays of the same elements, whichever: `both!((x, y), (a, b) => a.len() + b.len())`.
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

/// Positions as numbers of rows, of which there are `length`.
pub(in crate::ops) fn row_numbers(
    indices: &ArcArray<i64, IxDyn>,
    length: usize,
) -> Result<Vec<usize>, EvalError> {
    let place = |index: &i64| match usize::try_from(*index) {
        Ok(place) if place < length => Ok(place),
        _ => Err(EvalError(format!(
            "index {index} is out of range 0..{length}"
        ))),
    };
    indices.iter().map(place).collect()
}
