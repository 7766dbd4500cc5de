//! Lowering of gathers and scatters: bounds checks, linearized indices and validity masks of counted dimensions.
//!
//! Indices past a run-time count are arbitrary. None of them is read, written or reported as out of range, and no gradient
//! flows from the elements that they would name.

use crate::build::{Lowering, Value};
use crate::graph::Type;
use crate::types::{DType, Dim};

/// The validity mask of a tensor of these dimensions: true for elements before the counts; `None` where all are valid.
pub(in crate::ops) fn validity_mask<'g>(l: &Lowering<'g, '_>, dims: &[Dim]) -> Option<Value<'g>> {
    dims.iter().find(|d| d.count.is_some())?;
    let axes: Vec<usize> = (0..dims.len()).collect();
    let all = l.b.full(&Type::new(DType::Bool, &sizes(dims)), 1.0);
    Some(l.mask(all, dims, &axes, 0.0))
}

/// Indices with the first of them in place of the invalid ones, and 0 if none is valid: so no row is read that would not be
/// read without them.
pub(in crate::ops) fn fill_invalid<'g>(
    l: &Lowering<'g, '_>,
    indices: Value<'g>,
    dims: &[Dim],
) -> Value<'g> {
    match validity_mask(l, dims) {
        Some(valid) if indices.ty().elements() > 0 => {
            let fill = first(valid).select(first(indices), indices.like(0.0));
            valid.select(indices, fill)
        }
        _ => indices,
    }
}

/// Indices (i64) along the dimension `of`, checked to lie in it at run time.
pub(in crate::ops) fn bounds_checked<'g>(
    l: &Lowering<'g, '_>,
    indices: Value<'g>,
    dims: &[Dim],
    of: &Dim,
) -> Value<'g> {
    let size = of.size.value().expect("dimensions are bound");
    let indices = fill_invalid(l, indices, dims).cast(DType::I64);
    let indices = indices.bounded(0, size, "indices");
    let Some(count) = l.count(of) else {
        return indices;
    };
    let axes: Vec<usize> = (0..dims.len()).collect();
    let from_end = l.mask(indices - count, dims, &axes, -1.0);
    let from_end = from_end.bounded(-size, 0, "indices - count");
    fill_invalid(l, from_end + count, dims)
}

/// Linear (row-major) indices of the multi-dimensional ones in the last dimension of `indices`, into the dimensions `of`
/// merged.
pub(in crate::ops) fn linearized<'g>(
    l: &Lowering<'g, '_>,
    indices: Value<'g>,
    dims: &[Dim],
    of: &[Dim],
) -> Value<'g> {
    let last = dims.len() - 1;
    let shape = sizes(&dims[..last]);
    let column = |i: usize| {
        let column = indices.narrow(last, i, 1).reshape(&shape);
        bounds_checked(l, column, &dims[..last], &of[i])
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

/// Scatters the call's `updates` into slices of `target` at its `indices`, by `change`.
pub(in crate::ops) fn scatter_nd<'g>(
    l: &Lowering<'g, '_>,
    target: Value<'g>,
    change: Change<'g>,
) -> Value<'g> {
    let indices = &l.call.tensor("indices").shape.0;
    let (last, batch) = indices.split_last().expect("the rule asks for a dimension");
    let depth = last.size.value().expect("dimensions are bound") as usize;
    let positions = linearized(
        l,
        l.value("indices"),
        indices,
        &l.results[0].shape.0[..depth],
    );
    let shape = target.shape();
    let rows: usize = shape[..depth].iter().product();
    let target = target.reshape(&[&[rows], &shape[depth..]].concat());
    let positions = (positions, validity_mask(l, batch));
    scatter(target, positions, l.value("updates"), change).reshape(&shape)
}

/// A row scatter: the tensor, indices and rows.
pub(in crate::ops) type Change<'g> = fn(Value<'g>, Value<'g>, Value<'g>) -> Value<'g>;

/// Scatters rows into `target` by `change`; invalid rows are dropped.
pub(in crate::ops) fn scatter<'g>(
    target: Value<'g>,
    (positions, valid): (Value<'g>, Option<Value<'g>>),
    rows: Value<'g>,
    change: Change<'g>,
) -> Value<'g> {
    let Some(valid) = valid else {
        return change(target, positions, rows);
    };
    // One scratch row more, the target of invalid rows.
    let length = target.shape()[0];
    let none = vec![0; target.rank()];
    let mut one = none.clone();
    one[0] = 1;
    let larger = target.pad(target.like(0.0), &none, &one, &none);
    let positions = valid.select(positions, positions.like(length as f64));
    change(larger, positions, rows).narrow(0, 0, length)
}

/// Gathers the slices along an axis at the first `count` of `positions` (a vector), padded with zeros, which have no
/// gradient.
pub(in crate::ops) fn gather_prefix<'g>(
    x: Value<'g>,
    axis: usize,
    positions: Value<'g>,
    count: Value<'g>,
) -> Value<'g> {
    let n = positions.shape()[0];
    let valid = x.builder().iota(n).less(count);
    let positions = match n {
        0 => positions,
        _ => valid.select(positions, first(positions)),
    };
    let taken = gather_along(x, axis, positions);
    let mut along = vec![1; taken.rank()];
    along[axis] = n;
    valid.reshape(&along).select(taken, taken.like(0.0))
}

/// Gathers the slices along an axis at indices, which are a vector.
pub(in crate::ops) fn gather_along<'g>(
    x: Value<'g>,
    axis: usize,
    positions: Value<'g>,
) -> Value<'g> {
    x.move_axis(axis, 0).take(positions).move_axis(0, axis)
}

/// The first of all elements, as a scalar.
fn first(x: Value<'_>) -> Value<'_> {
    let n = x.ty().elements();
    x.reshape(&[n]).narrow(0, 0, 1).reshape(&[])
}

/// The sizes of dimensions, for a counted one its upper bound.
fn sizes(dims: &[Dim]) -> Vec<usize> {
    let size = |d: &Dim| d.size.value().expect("dimensions are bound") as usize;
    dims.iter().map(size).collect()
}
