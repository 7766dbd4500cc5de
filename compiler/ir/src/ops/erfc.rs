//! `tf.math.erfc`: the complementary error function 1 - erf(x), elementwise.

use crate::build::Lower;
use crate::graph::{Eval, Gradient, Prim};
use crate::ops::op::Op;
use crate::ops::rules::primitive::floats;
use crate::ops::rules::{X_FLOAT, like_x};

/// 1 - erf x, accurate in the tails.
pub(super) static OP: Op = Op {
    name: "erfc",
    aliases: &[],
    doc: "One less the error function of every element, exact also far out.",
    params: X_FLOAT,
    random: false,
    lower: Lower::Elementwise(&PRIM),
    infer: like_x,
};

/// The primitive. VJP: dx = -dy · 2/√π · exp(-x²).
pub(crate) static PRIM: Prim = Prim {
    name: "erfc",
    attrs: &[],
    infer: floats,
    gradient: Gradient::Each(&[Some(|g| {
        -g.dy() * std::f64::consts::FRAC_2_SQRT_PI * (-g.x(0).square()).exp()
    })]),
    eval: Eval::Float1(libm::erfc),
};
