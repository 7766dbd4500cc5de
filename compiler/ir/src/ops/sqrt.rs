//! `tf.math.sqrt`: √x, elementwise.

use crate::build::Lower;
use crate::graph::{Eval, Gradient, Prim};
use crate::ops::op::Op;
use crate::ops::rules::primitive::floats;
use crate::ops::rules::{X_FLOAT, like_x};

/// √x; NaN below zero.
pub(super) static OP: Op = Op {
    name: "sqrt",
    aliases: &[],
    doc: "The square root of every element.",
    params: X_FLOAT,
    random: false,
    lower: Lower::Elementwise(&PRIM),
    infer: like_x,
};

/// The primitive. VJP: dx = ½ · dy / y.
pub(crate) static PRIM: Prim = Prim {
    name: "sqrt",
    attrs: &[],
    infer: floats,
    gradient: Gradient::Each(&[Some(|g| 0.5 * g.dy() / g.y())]),
    eval: Eval::Float1(f64::sqrt),
};
