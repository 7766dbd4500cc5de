//! `tf.math.round`: rounding to the nearest integer, ties to even, elementwise.

use crate::build::Lower;
use crate::graph::{Eval, Gradient, Prim};
use crate::ops::op::Op;
use crate::ops::rules::primitive::floats;
use crate::ops::rules::{X_NUMBER, like_x};

/// The nearest integer, ties to even (banker's rounding).
pub(super) static OP: Op = Op {
    name: "round",
    aliases: &[],
    doc: "The integer nearest to the element; ties go to the even one.",
    params: X_NUMBER,
    random: false,
    lower: Lower::Elementwise(&PRIM),
    infer: like_x,
};

/// The primitive.
pub(crate) static PRIM: Prim = Prim {
    name: "round",
    attrs: &[],
    infer: floats,
    gradient: Gradient::None,
    eval: Eval::Float1(f64::round_ties_even),
};
