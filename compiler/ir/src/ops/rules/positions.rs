//! Positions in tensors, on their way from operations to primitives.
//!
//! Positions behind a run-time count are arbitrary. None of them is read, written or complained about, and no gradient
//! flows back from what they would name.

use crate::build::{Lowering, Value};
use crate::graph::Type;
use crate::types::{DType, Dim};

/// Whether each place of a tensor of these dimensions is in use; `None` where all are.
pub(in crate::ops) fn used<'g>(l: &Lowering<'g, '_>, dims: &[Dim]) -> Option<Value<'g>> {
    dims.iter().find(|d| d.count.is_some())?;
    let axes: Vec<usize> = (0..dims.len()).collect();
    let all = l.b.full(&Type::new(DType::Bool, &sizes(dims)), 1.0);
    Some(l.mask(all, dims, &axes, 0.0))
}

/// Positions with the first of them in place of those that are not in use, and 0 if none is: so no row is named that
/// would not be named without them.
pub(in crate::ops) fn in_use<'g>(
    l: &Lowering<'g, '_>,
    indices: Value<'g>,
    dims: &[Dim],
) -> Value<'g> {
    match used(l, dims) {
        Some(used) if indices.ty().elements() > 0 => {
            let fill = first(used).select(first(indices), indices.like(0.0));
            used.select(indices, fill)
        }
        _ => indices,
    }
}

/// Positions (i64) along the dimension `of`, each of which must lie in it.
pub(in crate::ops) fn checked<'g>(
    l: &Lowering<'g, '_>,
    indices: Value<'g>,
    dims: &[Dim],
    of: &Dim,
) -> Value<'g> {
    let size = of.size.value().expect("dimensions are bound");
    let indices = in_use(l, indices, dims).cast(DType::I64);
    let indices = indices.bounded(0, size, "indices");
    let Some(count) = l.count(of) else {
        return indices;
    };
    let axes: Vec<usize> = (0..dims.len()).collect();
    let from_end = l.mask(indices - count, dims, &axes, -1.0);
    let from_end = from_end.bounded(-size, 0, "indices - count");
    in_use(l, from_end + count, dims)
}

/// Where positions of several numbers, in the last dimension of `indices`, point to once the dimensions `of` are one.
pub(in crate::ops) fn flat<'g>(
    l: &Lowering<'g, '_>,
    indices: Value<'g>,
    dims: &[Dim],
    of: &[Dim],
) -> Value<'g> {
    let last = dims.len() - 1;
    let shape = sizes(&dims[..last]);
    let column = |i: usize| {
        let column = indices.narrow(last, i, 1).reshape(&shape);
        checked(l, column, &dims[..last], &of[i])
    };
    let mut flat: Option<Value<'g>> = None;
    for (i, size) in sizes(of).into_iter().enumerate() {
        flat = Some(match flat {
            Some(flat) => flat * l.b.int(DType::I64, size as i64) + column(i),
            None => column(i),
        });
    }
    flat.unwrap_or_else(|| l.b.full(&Type::new(DType::I64, &shape), 0.0))
}

/// Changes pieces of `target` by `change`, at the positions that the call has in `indices`, to or by its `updates`.
pub(in crate::ops) fn scatter_nd<'g>(
    l: &Lowering<'g, '_>,
    target: Value<'g>,
    change: Change<'g>,
) -> Value<'g> {
    let indices = &l.call.tensor("indices").shape.0;
    let (last, batch) = indices.split_last().expect("the rule asks for a dimension");
    let depth = last.size.value().expect("dimensions are bound") as usize;
    let positions = flat(
        l,
        l.value("indices"),
        indices,
        &l.results[0].shape.0[..depth],
    );
    let shape = target.shape();
    let rows: usize = shape[..depth].iter().product();
    let target = target.reshape(&[&[rows], &shape[depth..]].concat());
    let positions = (positions, used(l, batch));
    scatter(target, positions, l.value("updates"), change).reshape(&shape)
}

/// Changes rows of a tensor, given it, positions and rows.
pub(in crate::ops) type Change<'g> = fn(Value<'g>, Value<'g>, Value<'g>) -> Value<'g>;

/// Changes rows of `target` by `change`; rows that are not in use change nothing.
pub(in crate::ops) fn scatter<'g>(
    target: Value<'g>,
    (positions, used): (Value<'g>, Option<Value<'g>>),
    rows: Value<'g>,
    change: Change<'g>,
) -> Value<'g> {
    let Some(used) = used else {
        return change(target, positions, rows);
    };
    // One more row, for those that are not in use.
    let length = target.shape()[0];
    let none = vec![0; target.rank()];
    let mut one = none.clone();
    one[0] = 1;
    let larger = target.pad(target.like(0.0), &none, &one, &none);
    let positions = used.select(positions, positions.like(length as f64));
    change(larger, positions, rows).narrow(0, 0, length)
}

/// The slices along an axis at the first `count` of `positions` (a vector); behind them are zeros, from which no gradient
/// flows back.
pub(in crate::ops) fn kept<'g>(
    x: Value<'g>,
    axis: usize,
    positions: Value<'g>,
    count: Value<'g>,
) -> Value<'g> {
    let n = positions.shape()[0];
    let used = x.builder().iota(n).less(count);
    let positions = match n {
        0 => positions,
        _ => used.select(positions, first(positions)),
    };
    let taken = take_along(x, axis, positions);
    let mut along = vec![1; taken.rank()];
    along[axis] = n;
    used.reshape(&along).select(taken, taken.like(0.0))
}

/// The slices along an axis at positions, which are a vector.
pub(in crate::ops) fn take_along<'g>(x: Value<'g>, axis: usize, positions: Value<'g>) -> Value<'g> {
    x.move_axis(axis, 0).take(positions).move_axis(0, axis)
}

/// The first of all elements, as a scalar.
fn first(x: Value<'_>) -> Value<'_> {
    let n = x.ty().elements();
    x.reshape(&[n]).narrow(0, 0, 1).reshape(&[])
}

/// The sizes of dimensions, those with a count being as large as they can become.
fn sizes(dims: &[Dim]) -> Vec<usize> {
    let size = |d: &Dim| d.size.value().expect("dimensions are bound") as usize;
    dims.iter().map(size).collect()
}
