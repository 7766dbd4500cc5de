//! `tf.math.atanh`: the inverse hyperbolic tangent, elementwise.

use crate::build::Lower;
use crate::graph::{Eval, Gradient, Prim};
use crate::ops::op::Op;
use crate::ops::rules::primitive::floats;
use crate::ops::rules::{X_FLOAT, like_x};

/// atanh x; NaN outside of -1 to 1.
pub(super) static OP: Op = Op {
    name: "atanh",
    aliases: &[],
    doc: "The number whose hyperbolic tangent is the element.",
    params: X_FLOAT,
    random: false,
    lower: Lower::Elementwise(&PRIM),
    infer: like_x,
};

/// The primitive. VJP: dx = dy / (1 - x²).
pub(crate) static PRIM: Prim = Prim {
    name: "atanh",
    attrs: &[],
    infer: floats,
    gradient: Gradient::Each(&[Some(|g| g.dy() / (1.0 - g.x(0).square()))]),
    eval: Eval::Float1(libm::atanh),
};
