//! `tf.math.tanh`: the hyperbolic tangent, elementwise.

use crate::build::Lower;
use crate::graph::{Eval, Gradient, Prim};
use crate::ops::op::Op;
use crate::ops::rules::primitive::floats;
use crate::ops::rules::{X_FLOAT, like_x};

/// tanh x = (eˣ - e⁻ˣ) / (eˣ + e⁻ˣ).
pub(super) static OP: Op = Op {
    name: "tanh",
    aliases: &[],
    doc: "The hyperbolic tangent of every element.",
    params: X_FLOAT,
    random: false,
    lower: Lower::Elementwise(&PRIM),
    infer: like_x,
};

/// The primitive. VJP: dx = dy · (1 - y²).
pub(crate) static PRIM: Prim = Prim {
    name: "tanh",
    attrs: &[],
    infer: floats,
    gradient: Gradient::Each(&[Some(|g| g.dy() * (1.0 - g.y().square()))]),
    eval: Eval::Float1(libm::tanh),
};
