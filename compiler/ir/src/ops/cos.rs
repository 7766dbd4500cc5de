//! `tf.math.cos`: the cosine, elementwise.

use crate::build::Lower;
use crate::graph::{Eval, Gradient, Prim};
use crate::ops::op::Op;
use crate::ops::rules::primitive::floats;
use crate::ops::rules::{X_FLOAT, like_x};

/// cos x.
pub(super) static OP: Op = Op {
    name: "cos",
    aliases: &[],
    doc: "The cosine of every element, in radians.",
    params: X_FLOAT,
    random: false,
    lower: Lower::Elementwise(&PRIM),
    infer: like_x,
};

/// The primitive. VJP: dx = -dy · sin(x).
pub(crate) static PRIM: Prim = Prim {
    name: "cos",
    attrs: &[],
    infer: floats,
    gradient: Gradient::Each(&[Some(|g| -g.dy() * g.x(0).sin())]),
    eval: Eval::Float1(libm::cos),
};
