//! Reductions, scans and sorts along axes: type inference, lowering and reference evaluation.

use ndarray::{ArcArray, ArrayD, IxDyn};

use crate::build::{Lowering, Value};
use crate::graph::{PrimCall, Type};
use crate::interp::{Array, EvalError, Evaluation};
use crate::ops::op::RuleError;
use crate::ops::rules::axes::all_axes;
use crate::ops::rules::primitive::{arity, of_class};
use crate::ops::rules::shapes::one_result;
use crate::types::{Class, DType};

/// Type inference of a reduction: one operand with elements of the class, and `axes` of it in ascending order, which the
/// result does not have.
pub(in crate::ops) fn reduced(call: &PrimCall<'_>, class: Class) -> Result<Vec<Type>, String> {
    let [x] = arity(call)?;
    of_class(x, class)?;
    let axes = call.sizes("axes");
    if !axes.is_sorted_by(|a, b| a < b) {
        return Err(format!("the axes must ascend: {axes:?}"));
    }
    if let Some(axis) = axes.iter().find(|a| **a >= x.rank()) {
        return Err(format!("there is no axis {axis}"));
    }
    let dims = x.shape.iter().enumerate();
    let remaining: Vec<usize> = dims
        .filter(|(i, _)| !axes.contains(i))
        .map(|(_, n)| *n)
        .collect();
    one_result(x.dtype, remaining)
}

/// Type inference of a reduction of numbers over `axes`.
pub(in crate::ops) fn reduced_numbers(call: &PrimCall<'_>) -> Result<Vec<Type>, String> {
    reduced(call, Class::Number)
}

/// Type inference of a reduction of booleans over `axes`.
pub(in crate::ops) fn reduced_bools(call: &PrimCall<'_>) -> Result<Vec<Type>, String> {
    let [x] = arity(call)?;
    match x.dtype {
        DType::Bool => reduced(call, Class::Any),
        other => Err(format!("the elements must be bool, not {other}")),
    }
}

/// One operand of numbers, which has `axis`.
pub(in crate::ops) fn has_axis<'a>(call: &PrimCall<'a>) -> Result<(&'a Type, usize), String> {
    let [x] = arity(call)?;
    of_class(x, Class::Number)?;
    let axis = call.size("axis");
    match axis < x.rank() {
        true => Ok((x, axis)),
        false => Err(format!("there is no axis {axis}")),
    }
}

/// Type inference of argmax and argmin: an i64 index along `axis`, which the result does not have.
pub(in crate::ops) fn positions(call: &PrimCall<'_>) -> Result<Vec<Type>, String> {
    let (x, axis) = has_axis(call)?;
    let mut shape = x.shape.clone();
    if shape.remove(axis) == 0 {
        return Err(format!("axis {axis} is empty"));
    }
    one_result(DType::I64, shape)
}

/// Lowers a reduction over the axes of a call; elements past a count become the `identity` element.
pub(in crate::ops) fn reduce<'g>(
    l: &Lowering<'g, '_>,
    identity: f64,
    by: impl FnOnce(Value<'g>, &[usize]) -> Value<'g>,
) -> Result<Vec<Value<'g>>, RuleError> {
    let axes = all_axes(l.call, "axis", l.call.tensor("x").rank())?;
    let y = by(l.masked("x", &axes, identity), &axes);
    Ok(vec![match l.call.bool("keepdims") {
        true => y.keep_dims(&axes),
        false => y,
    }])
}

/// The accumulator type of a mean: f16 and bf16 have too few digits to accumulate in.
pub(in crate::ops) fn accumulator_dtype(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::Bf16 => DType::F32,
        other => other,
    }
}

/// A reduced value broadcast along the axes it was reduced over.
pub(in crate::ops) fn broadcast_along<'g>(
    y: Value<'g>,
    axes: &[usize],
    shape: &[usize],
) -> Value<'g> {
    y.keep_dims(axes).broadcast(shape)
}

/// The evaluation of a reduction of numbers over `axes`.
pub(in crate::ops) fn reduce_numbers(
    e: &Evaluation<'_>,
    float: impl Fn(&[f64]) -> f64,
    int: impl Fn(&[i64]) -> i64,
) -> Result<Vec<Array>, EvalError> {
    let axes = e.sizes("axes");
    Ok(vec![match e.x(0) {
        Array::Float(a) => e.floats(reduce_axes(a, axes, float)),
        Array::Int(a) => e.ints(reduce_axes(a, axes, int)),
        Array::Bool(_) => panic!("`{}` takes numbers", e.prim.name),
    }])
}

/// Reduces over the axes by `f`, which gets the elements in row-major order.
pub(in crate::ops) fn reduce_axes<T: Copy, U>(
    a: &ArcArray<T, IxDyn>,
    axes: &[usize],
    f: impl Fn(&[T]) -> U,
) -> ArrayD<U> {
    let remaining: Vec<usize> = (0..a.ndim()).filter(|i| !axes.contains(i)).collect();
    let sizes = |axes: &[usize]| axes.iter().map(|i| a.shape()[*i]).collect::<Vec<usize>>();
    let shape = sizes(&remaining);
    let (count, length): (usize, usize) = (shape.iter().product(), sizes(axes).iter().product());
    let order = [&remaining[..], axes].concat();
    let elements: Vec<T> = a.view().permuted_axes(order).iter().copied().collect();
    let results = (0..count).map(|i| f(&elements[i * length..][..length]));
    ArrayD::from_shape_vec(shape, results.collect()).expect("there is a result for each element")
}

/// Maps each lane (the elements along the axis) to a lane of the same length.
pub(in crate::ops) fn map_lanes<T: Copy, U: Copy>(
    a: &ArcArray<T, IxDyn>,
    axis: usize,
    f: impl Fn(&[T]) -> Vec<U>,
) -> ArrayD<U> {
    let mut order: Vec<usize> = (0..a.ndim()).filter(|i| *i != axis).collect();
    order.push(axis);
    let moved = a.view().permuted_axes(order.clone());
    let elements: Vec<T> = moved.iter().copied().collect();
    let lanes = elements.chunks(a.shape()[axis].max(1));
    let results = lanes.flat_map(f).collect();
    let results = ArrayD::from_shape_vec(moved.shape(), results);
    let mut inverse = vec![0; order.len()];
    for (to, from) in order.iter().enumerate() {
        inverse[*from] = to;
    }
    let results = results.expect("a lane is mapped to one of its length");
    results
        .permuted_axes(inverse)
        .as_standard_layout()
        .into_owned()
}
