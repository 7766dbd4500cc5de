//! `tf.math.rsqrt`: 1 / √x, elementwise.

use crate::build::Lower;
use crate::graph::{Eval, Gradient, Prim};
use crate::ops::op::Op;
use crate::ops::rules::primitive::floats;
use crate::ops::rules::{X_FLOAT, like_x};

/// 1 / √x.
pub(super) static OP: Op = Op {
    name: "rsqrt",
    aliases: &[],
    doc: "One over the square root of every element.",
    params: X_FLOAT,
    random: false,
    lower: Lower::Elementwise(&PRIM),
    infer: like_x,
};

/// The primitive. VJP: dx = -½ · dy · y / x.
pub(crate) static PRIM: Prim = Prim {
    name: "rsqrt",
    attrs: &[],
    infer: floats,
    gradient: Gradient::Each(&[Some(|g| -0.5 * g.dy() * g.y() / g.x(0))]),
    eval: Eval::Float1(|x| 1.0 / x.sqrt()),
};
