//! Primitives that work along axes: their types, and how they are evaluated.

use ndarray::{ArcArray, ArrayD, IxDyn};

use crate::build::{Lowering, Value};
use crate::graph::{PrimCall, Type};
use crate::interp::{Array, EvalError, Evaluation};
use crate::ops::op::RuleError;
use crate::ops::rules::axes::all_axes;
use crate::ops::rules::primitive::{arity, of_class};
use crate::ops::rules::shapes::made;
use crate::types::{Class, DType};

/// One operand with elements of the class, and `axes` of it in ascending order: the result has no such axes.
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
    let kept: Vec<usize> = dims
        .filter(|(i, _)| !axes.contains(i))
        .map(|(_, n)| *n)
        .collect();
    made(x.dtype, kept)
}

/// Numbers: the result has no `axes`.
pub(in crate::ops) fn reduced_numbers(call: &PrimCall<'_>) -> Result<Vec<Type>, String> {
    reduced(call, Class::Number)
}

/// Truths: the result has no `axes`.
pub(in crate::ops) fn reduced_truths(call: &PrimCall<'_>) -> Result<Vec<Type>, String> {
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

/// One operand of numbers: for each place the position of one element along `axis`, which goes.
pub(in crate::ops) fn positions(call: &PrimCall<'_>) -> Result<Vec<Type>, String> {
    let (x, axis) = has_axis(call)?;
    let mut shape = x.shape.clone();
    if shape.remove(axis) == 0 {
        return Err(format!("axis {axis} is empty"));
    }
    made(DType::I64, shape)
}

/// A reduction over the axes of a call, `fill` being what changes nothing.
pub(in crate::ops) fn reduce<'g>(
    l: &Lowering<'g, '_>,
    fill: f64,
    by: impl FnOnce(Value<'g>, &[usize]) -> Value<'g>,
) -> Result<Vec<Value<'g>>, RuleError> {
    let axes = all_axes(l.call, "axis", l.call.tensor("x").rank())?;
    let y = by(l.masked("x", &axes, fill), &axes);
    Ok(vec![match l.call.bool("keepdims") {
        true => y.keep_dims(&axes),
        false => y,
    }])
}

/// The type in which a mean is computed: a narrow float has too few digits to count in.
pub(in crate::ops) fn wide(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::Bf16 => DType::F32,
        other => other,
    }
}

/// A reduced value repeated along the axes it was reduced over.
pub(in crate::ops) fn spread<'g>(y: Value<'g>, axes: &[usize], shape: &[usize]) -> Value<'g> {
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
        Array::Float(a) => e.floats(fold(a, axes, float)),
        Array::Int(a) => e.ints(fold(a, axes, int)),
        Array::Bool(_) => panic!("`{}` takes numbers", e.prim.name),
    }])
}

/// One value for all elements along the axes, which come in the order of rows.
pub(in crate::ops) fn fold<T: Copy, U>(
    a: &ArcArray<T, IxDyn>,
    axes: &[usize],
    f: impl Fn(&[T]) -> U,
) -> ArrayD<U> {
    let kept: Vec<usize> = (0..a.ndim()).filter(|i| !axes.contains(i)).collect();
    let sizes = |axes: &[usize]| axes.iter().map(|i| a.shape()[*i]).collect::<Vec<usize>>();
    let shape = sizes(&kept);
    let (places, length): (usize, usize) = (shape.iter().product(), sizes(axes).iter().product());
    let order = [&kept[..], axes].concat();
    let elements: Vec<T> = a.view().permuted_axes(order).iter().copied().collect();
    let results = (0..places).map(|i| f(&elements[i * length..][..length]));
    ArrayD::from_shape_vec(shape, results.collect()).expect("there is a result for each place")
}

/// A new value for each element, all along the axis being made together.
pub(in crate::ops) fn lines<T: Copy, U: Copy>(
    a: &ArcArray<T, IxDyn>,
    axis: usize,
    f: impl Fn(&[T]) -> Vec<U>,
) -> ArrayD<U> {
    let mut order: Vec<usize> = (0..a.ndim()).filter(|i| *i != axis).collect();
    order.push(axis);
    let moved = a.view().permuted_axes(order.clone());
    let elements: Vec<T> = moved.iter().copied().collect();
    let lines = elements.chunks(a.shape()[axis].max(1));
    let results = lines.flat_map(f).collect();
    let results = ArrayD::from_shape_vec(moved.shape(), results);
    let mut back = vec![0; order.len()];
    for (to, from) in order.iter().enumerate() {
        back[*from] = to;
    }
    let results = results.expect("a line becomes one as long");
    results
        .permuted_axes(back)
        .as_standard_layout()
        .into_owned()
}
