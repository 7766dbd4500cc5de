//! Sorting: the permutation along an axis, and `take_along_axis` to apply it.

use crate::build::{Lowering, Value};
use crate::ops::op::RuleError;
use crate::ops::rules::axes::axis;
use crate::types::DType;

/// The permutation that sorts `x` in the direction that a call requests, and the axis.
pub(in crate::ops) fn sort_permutation<'g>(
    l: &Lowering<'g, '_>,
) -> Result<(Value<'g>, usize), RuleError> {
    let x = l.value("x");
    let axis = axis("axis", l.call.int("axis")?, x.rank())?;
    let descending = l.call.word("direction") == "descending";
    Ok((x.argsort(axis, descending), axis))
}

/// NumPy's `take_along_axis`: the elements at indices along an axis; `positions` has the shape of x, but for the axis, which
/// may be of any size.
pub(in crate::ops) fn take_along_axis<'g>(
    x: Value<'g>,
    positions: Value<'g>,
    axis: usize,
) -> Value<'g> {
    let last = x.rank() - 1;
    let (x, positions) = (x.move_axis(axis, last), positions.move_axis(axis, last));
    let (size, shape) = (x.shape()[last], positions.shape());
    let lanes: usize = shape[..last].iter().product();
    let b = x.builder();
    let starts = b.iota(lanes) * b.int(DType::I64, size as i64);
    let offsets = positions.reshape(&[lanes, shape[last]]) + starts.reshape(&[lanes, 1]);
    let flat = x.reshape(&[lanes * size]);
    let taken = flat.take(offsets.reshape(&[lanes * shape[last]]));
    taken.reshape(&shape).move_axis(last, axis)
}
