//! `tf.math.argmax`: the index of the largest element along an axis.

use crate::build::Lower;
use crate::graph::{AttrKind, Eval, Gradient, Prim};
use crate::interp::{Array, EvalError, Evaluation};
use crate::ops::op::Op;
use crate::ops::rules::along::{positions, reduce_axes};
use crate::ops::rules::{ARG_REDUCE, arg_reduce, axis};

/// The smallest index of max x along `axis`.
pub(super) static OP: Op = Op {
    name: "argmax",
    aliases: &[],
    doc: "The position of the greatest element along an axis, the first of equal ones.",
    params: ARG_REDUCE,
    random: false,
    lower: Lower::By(|l| {
        let axis = axis("axis", l.call.int("axis")?, l.call.tensor("x").rank())?;
        let x = l.masked("x", &[axis], f64::NEG_INFINITY);
        Ok(vec![x.argmax(axis)])
    }),
    infer: arg_reduce,
};

/// The primitive. NaN never compares greater; where all elements are NaN, the index is 0.
pub(crate) static PRIM: Prim = Prim {
    name: "argmax",
    attrs: &[("axis", AttrKind::Size)],
    infer: positions,
    gradient: Gradient::None,
    eval: Eval::Tensors(eval),
};

fn eval(e: &Evaluation<'_>) -> Result<Vec<Array>, EvalError> {
    let axes = [e.size("axis")];
    Ok(vec![match e.x(0) {
        Array::Float(a) => reduce_axes(a, &axes, |xs| first(xs, f64::NEG_INFINITY)).into(),
        Array::Int(a) => reduce_axes(a, &axes, |xs| first(xs, xs[0])).into(),
        Array::Bool(_) => panic!("`argmax` takes numbers"),
    }])
}

/// The index of the first maximum.
fn first<T: Copy + PartialOrd>(xs: &[T], start: T) -> i64 {
    let mut best = (0, start);
    for (i, x) in xs.iter().enumerate() {
        if *x > best.1 {
            best = (i as i64, *x);
        }
    }
    best.0
}
