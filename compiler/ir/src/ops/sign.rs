//! `tf.math.sign`: the sign, elementwise.

use crate::build::Lower;
use crate::graph::{Eval, Gradient, Prim};
use crate::ops::op::Op;
use crate::ops::rules::primitive::numbers;
use crate::ops::rules::{X_NUMBER, like_x};

/// -1, 0 or 1; NaN for NaN.
pub(super) static OP: Op = Op {
    name: "sign",
    aliases: &[],
    doc: "The sign of every element: -1, 0 or 1.",
    params: X_NUMBER,
    random: false,
    lower: Lower::Elementwise(&PRIM),
    infer: like_x,
};

/// The primitive. VJP: dx = 0.
pub(crate) static PRIM: Prim = Prim {
    name: "sign",
    attrs: &[],
    infer: numbers,
    gradient: Gradient::Each(&[Some(|g| g.b.full(&g.x(0).ty(), 0.0))]),
    eval: Eval::Number1(
        |x| {
            if x.is_nan() || x == 0.0 {
                x
            } else {
                x.signum()
            }
        },
        i64::signum,
    ),
};
