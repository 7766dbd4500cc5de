//! `tf.math.sigmoid`: the logistic function 1 / (1 + e⁻ˣ), elementwise.

use crate::build::Lower;
use crate::graph::{Eval, Gradient, Prim};
use crate::ops::op::Op;
use crate::ops::rules::primitive::floats;
use crate::ops::rules::{X_FLOAT, like_x};

/// 1 / (1 + e⁻ˣ).
pub(super) static OP: Op = Op {
    name: "sigmoid",
    aliases: &[],
    doc: "The logistic function of every element.",
    params: X_FLOAT,
    random: false,
    lower: Lower::Elementwise(&PRIM),
    infer: like_x,
};

/// The primitive. VJP: dx = dy · y · (1 - y).
pub(crate) static PRIM: Prim = Prim {
    name: "sigmoid",
    attrs: &[],
    infer: floats,
    gradient: Gradient::Each(&[Some(|g| g.dy() * g.y() * (1.0 - g.y()))]),
    eval: Eval::Float1(|x| 1.0 / (1.0 + libm::exp(-x))),
};
