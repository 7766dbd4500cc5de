//! Rounding to the nearest.

use crate::build::Lower;
use crate::graph::{Eval, Gradient, Prim};
use crate::ops::op::Op;
use crate::ops::rules::primitive::floats;
use crate::ops::rules::{X_NUMBER, like_x};

/// The nearest whole number, halves going to the even one.
pub(super) static OP: Op = Op {
    name: "round",
    aliases: &[],
    doc: "The whole number nearest to the element; halves go to the even one.",
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
