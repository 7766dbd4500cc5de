//! `tf.math.asinh`: the inverse hyperbolic sine, elementwise.

use crate::build::Lower;
use crate::graph::{Eval, Gradient, Prim};
use crate::ops::op::Op;
use crate::ops::rules::primitive::floats;
use crate::ops::rules::{X_FLOAT, like_x};

/// asinh x.
pub(super) static OP: Op = Op {
    name: "asinh",
    aliases: &[],
    doc: "The number whose hyperbolic sine is the element.",
    params: X_FLOAT,
    random: false,
    lower: Lower::Elementwise(&PRIM),
    infer: like_x,
};

/// The primitive. VJP: dx = dy / cosh(y).
pub(crate) static PRIM: Prim = Prim {
    name: "asinh",
    attrs: &[],
    infer: floats,
    gradient: Gradient::Each(&[Some(|g| g.dy() / g.y().cosh())]),
    eval: Eval::Float1(libm::asinh),
};
