//! `tf.math.log`: the natural logarithm, elementwise.

use crate::build::Lower;
use crate::graph::{Eval, Gradient, Prim};
use crate::ops::op::Op;
use crate::ops::rules::primitive::floats;
use crate::ops::rules::{X_FLOAT, like_x};

/// ln x; NaN below zero.
pub(super) static OP: Op = Op {
    name: "log",
    aliases: &[],
    doc: "The natural logarithm of every element.",
    params: X_FLOAT,
    random: false,
    lower: Lower::Elementwise(&PRIM),
    infer: like_x,
};

/// The primitive. VJP: dx = dy / x.
pub(crate) static PRIM: Prim = Prim {
    name: "log",
    attrs: &[],
    infer: floats,
    gradient: Gradient::Each(&[Some(|g| g.dy() / g.x(0))]),
    eval: Eval::Float1(libm::log),
};
