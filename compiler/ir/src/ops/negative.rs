//! `tf.math.negative`: -x, elementwise.

use crate::build::Lower;
use crate::graph::{Eval, Gradient, Prim};
use crate::ops::op::Op;
use crate::ops::rules::primitive::numbers;
use crate::ops::rules::{X_NUMBER, like_x};

/// -x.
pub(super) static OP: Op = Op {
    name: "negative",
    aliases: &[],
    doc: "The negative of every element.",
    params: X_NUMBER,
    random: false,
    lower: Lower::Elementwise(&PRIM),
    infer: like_x,
};

/// The primitive. VJP: dx = -dy.
pub(crate) static PRIM: Prim = Prim {
    name: "negative",
    attrs: &[],
    infer: numbers,
    gradient: Gradient::Each(&[Some(|g| -g.dy())]),
    eval: Eval::Number1(|x| -x, i64::wrapping_neg),
};
