//! Reference evaluation of gathers and scatters: dispatch on element type, and index checks.

use ndarray::{ArcArray, ArrayD, Axis, IxDyn};

use crate::interp::{Array, EvalError, Evaluation};

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

/// The targets of a scatter (`x`, `indices`, `rows`), and its rows, one for each.
pub(in crate::ops) fn scatter_operands(
    e: &Evaluation<'_>,
) -> Result<(Vec<usize>, Array), EvalError> {
    let x = &e.types[0].shape;
    let targets = row_indices(e.x(1).int(), x[0])?;
    let rows = e.x(2).reshaped(&[&[targets.len()], &x[1..]].concat());
    Ok((targets, rows))
}

/// x after `update` of its rows at the targets with the rows, one after the other.
pub(in crate::ops) fn scatter_rows<T: Clone>(
    x: &ArcArray<T, IxDyn>,
    targets: &[usize],
    rows: &ArcArray<T, IxDyn>,
    update: impl Fn(&mut T, &T),
) -> ArrayD<T> {
    let mut y = x.to_owned();
    for (target, row) in targets.iter().zip(rows.outer_iter()) {
        y.index_axis_mut(Axis(0), *target)
            .zip_mut_with(&row, &update);
    }
    y
}

/// Row indices, checked to be below `length`.
pub(in crate::ops) fn row_indices(
    indices: &ArcArray<i64, IxDyn>,
    length: usize,
) -> Result<Vec<usize>, EvalError> {
    let checked = |index: &i64| match usize::try_from(*index) {
        Ok(row) if row < length => Ok(row),
        _ => Err(EvalError::new(format!(
            "index {index} is out of range 0..{length}"
        ))),
    };
    indices.iter().map(checked).collect()
}
