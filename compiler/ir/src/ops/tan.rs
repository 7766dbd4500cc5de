//! `tf.math.tan`: the tangent, elementwise.

use crate::build::Lower;
use crate::graph::{Eval, Gradient, Prim};
use crate::ops::op::Op;
use crate::ops::rules::primitive::floats;
use crate::ops::rules::{X_FLOAT, like_x};

/// tan x.
pub(super) static OP: Op = Op {
    name: "tan",
    aliases: &[],
    doc: "The tangent of every element, in radians.",
    params: X_FLOAT,
    random: false,
    lower: Lower::Elementwise(&PRIM),
    infer: like_x,
};

/// The primitive. VJP: dx = dy · (1 + y²).
pub(crate) static PRIM: Prim = Prim {
    name: "tan",
    attrs: &[],
    infer: floats,
    gradient: Gradient::Each(&[Some(|g| g.dy() * (1.0 + g.y().square()))]),
    eval: Eval::Float1(libm::tan),
};
