//! `tf.math.atan`: the arctangent, elementwise.

use crate::build::Lower;
use crate::graph::{Eval, Gradient, Prim};
use crate::ops::op::Op;
use crate::ops::rules::primitive::floats;
use crate::ops::rules::{X_FLOAT, like_x};

/// atan x, from -π/2 to π/2.
pub(super) static OP: Op = Op {
    name: "atan",
    aliases: &[],
    doc: "The angle whose tangent is the element.",
    params: X_FLOAT,
    random: false,
    lower: Lower::Elementwise(&PRIM),
    infer: like_x,
};

/// The primitive. VJP: dx = dy / (1 + x²).
pub(crate) static PRIM: Prim = Prim {
    name: "atan",
    attrs: &[],
    infer: floats,
    gradient: Gradient::Each(&[Some(|g| g.dy() / (1.0 + g.x(0).square()))]),
    eval: Eval::Float1(libm::atan),
};
