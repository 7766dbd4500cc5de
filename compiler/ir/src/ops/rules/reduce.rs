//! Reductions, scans and sorts along axes: parameters and type inference.

use crate::ops::op::{Call, Default, Elements, Kind, Param, RuleError, RuleErrorKind};
use crate::ops::rules::axes::{all_axes, axis};
use crate::ops::rules::checks::exact_dim;
use crate::size::Size;
use crate::types::{Class, DType, Dim, Shape, TensorType};

/// Parameters of a reduction of numbers.
pub(in crate::ops) const REDUCE_NUMBER: &[Param] =
    &[x(Elements::Same("T", Class::Number)), AXES, KEEPDIMS];

/// Parameters of a reduction of floats.
pub(in crate::ops) const REDUCE_FLOAT: &[Param] =
    &[x(Elements::Same("T", Class::Float)), AXES, KEEPDIMS];

/// Parameters of a reduction of booleans.
pub(in crate::ops) const REDUCE_BOOL: &[Param] = &[x(Elements::Only(DType::Bool)), AXES, KEEPDIMS];

/// Parameters of argmax and argmin.
pub(in crate::ops) const ARG_REDUCE: &[Param] = &[
    x(Elements::Same("T", Class::Number)),
    Param::with("axis", Kind::Int, Default::Int(0)),
];

/// Parameters of a cumulative scan along one axis.
pub(in crate::ops) const SCAN: &[Param] = &[
    x(Elements::Same("T", Class::Number)),
    Param::with("axis", Kind::Int, Default::Int(0)),
    Param::with("exclusive", Kind::Bool, Default::Bool(false)),
    Param::with("reverse", Kind::Bool, Default::Bool(false)),
];

/// Parameters of a sort along one axis.
pub(in crate::ops) const SORT: &[Param] = &[
    x(Elements::Same("T", Class::Number)),
    Param::with("axis", Kind::Int, Default::Int(-1)),
    Param::with(
        "direction",
        Kind::Word(&["ascending", "descending"]),
        Default::Word("ascending"),
    ),
];

const AXES: Param = Param::optional("axis", Kind::Ints);
const KEEPDIMS: Param = Param::with("keepdims", Kind::Bool, Default::Bool(false));

const fn x(elements: Elements) -> Param {
    Param::required("x", Kind::Tensor(elements))
}

/// `x` without the axes of `axis`.
pub(in crate::ops) fn reduce_input(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    let x = call.tensor("x");
    let axes = all_axes(call, "axis", x.rank())?;
    let shape = reduce(&x.shape, &axes, call.bool("keepdims"));
    Ok(vec![TensorType::new(x.dtype, shape)])
}

/// Type inference of argmax and argmin: an i64 index for each lane, so `x` without that axis.
pub(in crate::ops) fn arg_reduce(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    let x = call.tensor("x");
    let index = axis("axis", call.int("axis")?, x.rank())?;
    if x.shape.0[index].size == Size::fixed(0) {
        return Err(RuleError::new(
            RuleErrorKind::ShapeMismatch,
            format!("dimension {index} is empty, so no position in it can be found"),
        ));
    }
    let shape = reduce(&x.shape, &[index], false);
    Ok(vec![TensorType::new(DType::I64, shape)])
}

/// Like `x`; a reverse scan needs an axis without a run-time count.
pub(in crate::ops) fn scan(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    let x = call.tensor("x");
    let index = axis("axis", call.int("axis")?, x.rank())?;
    if call.bool("reverse") {
        exact_dim("x", &x.shape.0[index])?;
    }
    Ok(vec![x.clone()])
}

/// The shape of `x`, whose `axis` must not be counted: elements past the count would be sorted in.
pub(in crate::ops) fn sort(call: &Call<'_>) -> Result<Shape, RuleError> {
    let x = call.tensor("x");
    let index = axis("axis", call.int("axis")?, x.rank())?;
    exact_dim("x", &x.shape.0[index])?;
    Ok(x.shape.clone())
}

/// A shape without the given axes, or with 1 in their place.
fn reduce(shape: &Shape, axes: &[usize], keepdims: bool) -> Shape {
    let mut dims = Vec::new();
    for (i, dim) in shape.0.iter().enumerate() {
        match (axes.contains(&i), keepdims) {
            (false, _) => dims.push(dim.clone()),
            (true, true) => dims.push(Dim::fixed(1)),
            (true, false) => {}
        }
    }
    Shape(dims)
}
