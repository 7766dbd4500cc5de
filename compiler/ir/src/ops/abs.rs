//! `tf.math.abs`: |x|, elementwise.

use crate::build::Lower;
use crate::graph::{Eval, Gradient, Prim};
use crate::ops::op::Op;
use crate::ops::rules::primitive::numbers;
use crate::ops::rules::{X_NUMBER, like_x};

/// |x|.
pub(super) static OP: Op = Op {
    name: "abs",
    aliases: &[],
    doc: "The absolute value of every element.",
    params: X_NUMBER,
    random: false,
    lower: Lower::Elementwise(&PRIM),
    infer: like_x,
};

/// The primitive. VJP: dx = dy · sign(x).
pub(crate) static PRIM: Prim = Prim {
    name: "abs",
    attrs: &[],
    infer: numbers,
    gradient: Gradient::Each(&[Some(|g| g.dy() * g.x(0).sign())]),
    eval: Eval::Number1(f64::abs, i64::wrapping_abs),
};
