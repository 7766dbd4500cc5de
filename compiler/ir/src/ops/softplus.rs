//! `tf.math.softplus`: ln(1 + eˣ), elementwise.

use crate::build::Lower;
use crate::graph::{Eval, Gradient, Prim};
use crate::ops::op::Op;
use crate::ops::rules::primitive::floats;
use crate::ops::rules::{X_FLOAT, like_x};

/// ln (1 + eˣ).
pub(super) static OP: Op = Op {
    name: "softplus",
    aliases: &[],
    doc: "The logarithm of one plus e to the power of every element.",
    params: X_FLOAT,
    random: false,
    lower: Lower::Elementwise(&PRIM),
    infer: like_x,
};

/// The primitive. VJP: dx = dy · sigmoid(x).
pub(crate) static PRIM: Prim = Prim {
    name: "softplus",
    attrs: &[],
    infer: floats,
    gradient: Gradient::Each(&[Some(|g| g.dy() * g.x(0).sigmoid())]),
    eval: Eval::Float1(|x| x.max(0.0) + libm::log1p(libm::exp(-x.abs()))),
};
