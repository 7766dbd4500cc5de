//! Elements brought into order: picked one by one along an axis.

use crate::build::{Lowering, Value};
use crate::ops::op::RuleError;
use crate::ops::rules::axes::axis;
use crate::types::DType;

/// The positions of the elements of `x` in the order that a call asks for, and the axis.
pub(in crate::ops) fn sorted<'g>(l: &Lowering<'g, '_>) -> Result<(Value<'g>, usize), RuleError> {
    let x = l.value("x");
    let axis = axis("axis", l.call.int("axis")?, x.rank())?;
    let descending = l.call.word("direction") == "descending";
    Ok((x.argsort(axis, descending), axis))
}

/// The elements at positions along an axis; `positions` has the shape of x, but for the axis, which may be of any size.
pub(in crate::ops) fn pick<'g>(x: Value<'g>, positions: Value<'g>, axis: usize) -> Value<'g> {
    let last = x.rank() - 1;
    let (x, positions) = (x.move_axis(axis, last), positions.move_axis(axis, last));
    let (size, shape) = (x.shape()[last], positions.shape());
    let lines: usize = shape[..last].iter().product();
    let b = x.builder();
    let starts = b.iota(lines) * b.int(DType::I64, size as i64);
    let places = positions.reshape(&[lines, shape[last]]) + starts.reshape(&[lines, 1]);
    let flat = x.reshape(&[lines * size]);
    let picked = flat.take(places.reshape(&[lines * shape[last]]));
    picked.reshape(&shape).move_axis(last, axis)
}
