//! `tf.math.argmin`: the index of the smallest element along an axis.

use crate::build::Lower;
use crate::graph::{AttrKind, Eval, Gradient, Prim};
use crate::interp::{Array, EvalError, Evaluation};
use crate::ops::op::Op;
use crate::ops::rules::along::{positions, reduce_axes};
use crate::ops::rules::{ARG_REDUCE, arg_reduce, axis};

/// The smallest index of min x along `axis`.
pub(super) static OP: Op = Op {
    name: "argmin",
    aliases: &[],
    doc: "The position of the least element along an axis, the first of equal ones.",
    params: ARG_REDUCE,
    random: false,
    lower: Lower::By(|l| {
        let axis = axis("axis", l.call.int("axis")?, l.call.tensor("x").rank())?;
        let x = l.masked("x", &[axis], f64::INFINITY);
        Ok(vec![x.argmin(axis)])
    }),
    infer: arg_reduce,
};

/// The primitive. NaN never compares less; where all elements are NaN, the index is 0.
pub(crate) static PRIM: Prim = Prim {
    name: "argmin",
    attrs: &[("axis", AttrKind::Size)],
    infer: positions,
    gradient: Gradient::None,
    eval: Eval::Tensors(eval),
};

fn eval(e: &Evaluation<'_>) -> Result<Vec<Array>, EvalError> {
    let axes = [e.size("axis")];
    Ok(vec![match e.x(0) {
        Array::Float(a) => reduce_axes(a, &axes, |xs| first(xs, f64::INFINITY)).into(),
        Array::Int(a) => reduce_axes(a, &axes, |xs| first(xs, xs[0])).into(),
        Array::Bool(_) => panic!("`argmin` takes numbers"),
    }])
}

/// The index of the first minimum.
fn first<T: Copy + PartialOrd>(xs: &[T], start: T) -> i64 {
    let mut best = (0, start);
    for (i, x) in xs.iter().enumerate() {
        if *x < best.1 {
            best = (i as i64, *x);
        }
    }
    best.0
}
