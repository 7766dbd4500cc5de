//! `tf.math.sin`: the sine, elementwise.

use crate::build::Lower;
use crate::graph::{Eval, Gradient, Prim};
use crate::ops::op::Op;
use crate::ops::rules::primitive::floats;
use crate::ops::rules::{X_FLOAT, like_x};

/// sin x.
pub(super) static OP: Op = Op {
    name: "sin",
    aliases: &[],
    doc: "The sine of every element, in radians.",
    params: X_FLOAT,
    random: false,
    lower: Lower::Elementwise(&PRIM),
    infer: like_x,
};

/// The primitive. VJP: dx = dy · cos(x).
pub(crate) static PRIM: Prim = Prim {
    name: "sin",
    attrs: &[],
    infer: floats,
    gradient: Gradient::Each(&[Some(|g| g.dy() * g.x(0).cos())]),
    eval: Eval::Float1(libm::sin),
};
