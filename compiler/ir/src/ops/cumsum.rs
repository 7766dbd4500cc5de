//! `tf.math.cumsum`: the cumulative sum (prefix sum, a scan) along an axis.

use crate::build::Lower;
use crate::graph::{AttrKind, Eval, Gradient, Prim, PrimCall, Type};
use crate::interp::{Array, EvalError, Evaluation};
use crate::ops::op::Op;
use crate::ops::rules::along::{has_axis, map_lanes};
use crate::ops::rules::{SCAN, axis, scan};

/// The prefix sums of x along `axis`.
pub(super) static OP: Op = Op {
    name: "cumsum",
    aliases: &[],
    doc: "The cumulative sum along an axis.",
    params: SCAN,
    random: false,
    lower: Lower::By(|l| {
        let x = l.call.tensor("x");
        let axis = axis("axis", l.call.int("axis")?, x.rank())?;
        let (exclusive, reverse) = (l.call.bool("exclusive"), l.call.bool("reverse"));
        let sums = l.value("x").cumsum(axis, exclusive, reverse);
        // Cotangents of elements past the count would flow into all elements before it, so they are masked.
        Ok(vec![l.mask(sums, &x.shape.0, &[axis], 0.0)])
    }),
    infer: scan,
};

/// The primitive. VJP: dx = cumsum(dy) in the opposite direction.
pub(crate) static PRIM: Prim = Prim {
    name: "cumsum",
    attrs: &[
        ("axis", AttrKind::Size),
        ("exclusive", AttrKind::Flag),
        ("reverse", AttrKind::Flag),
    ],
    infer,
    gradient: Gradient::Each(&[Some(|g| {
        g.dy()
            .cumsum(g.size("axis"), g.flag("exclusive"), !g.flag("reverse"))
    })]),
    eval: Eval::Tensors(eval),
};

fn infer(call: &PrimCall<'_>) -> Result<Vec<Type>, String> {
    let (x, _) = has_axis(call)?;
    Ok(vec![x.clone()])
}

fn eval(e: &Evaluation<'_>) -> Result<Vec<Array>, EvalError> {
    let axis = e.size("axis");
    Ok(vec![match e.x(0) {
        Array::Float(a) => e.floats(map_lanes(a, axis, |xs| sums(e, xs, 0.0, |sum, x| sum + x))),
        Array::Int(a) => e.ints(map_lanes(a, axis, |xs| sums(e, xs, 0, i64::wrapping_add))),
        Array::Bool(_) => panic!("`cumsum` takes numbers"),
    }])
}

/// The prefix sums of one lane.
fn sums<T: Copy>(e: &Evaluation<'_>, xs: &[T], zero: T, add: impl Fn(T, T) -> T) -> Vec<T> {
    let mut sums = vec![zero; xs.len()];
    let mut sum = zero;
    for step in 0..xs.len() {
        let i = if e.flag("reverse") {
            xs.len() - 1 - step
        } else {
            step
        };
        let before = sum;
        sum = add(sum, xs[i]);
        sums[i] = if e.flag("exclusive") { before } else { sum };
    }
    sums
}
