//! `tf.math.minimum`: the smaller of two, elementwise with broadcasting.

use crate::build::Lower;
use crate::graph::{Eval, Gradient, Prim};
use crate::ops::op::Op;
use crate::ops::rules::primitive::numbers;
use crate::ops::rules::{XY_NUMBER, broadcast_xy};

/// min(x, y); NaN if either is.
pub(super) static OP: Op = Op {
    name: "minimum",
    aliases: &[],
    doc: "The lesser of the elements of two tensors, broadcast against each other.",
    params: XY_NUMBER,
    random: false,
    lower: Lower::Elementwise(&PRIM),
    infer: broadcast_xy,
};

/// The primitive. VJP: dy goes to x₀ where x₀ ≤ x₁, else to x₁.
pub(crate) static PRIM: Prim = Prim {
    name: "minimum",
    attrs: &[],
    infer: numbers,
    gradient: Gradient::Each(&[
        Some(|g| {
            g.x(0)
                .less_equal(g.comparand())
                .select(g.dy(), g.x(0).like(0.0))
        }),
        Some(|g| {
            g.x(0)
                .less_equal(g.comparand())
                .select(g.x(0).like(0.0), g.dy())
        }),
    ]),
    eval: Eval::Number2(smaller, |x, y| Some(x.min(y))),
};

/// The smaller; NaN where one is NaN.
fn smaller(x: f64, y: f64) -> f64 {
    if x.is_nan() || x < y || (x == y && x.is_sign_negative()) {
        x
    } else {
        y
    }
}
