//! `tf.math.erf`: the Gauss error function, elementwise.

use crate::build::Lower;
use crate::graph::{Eval, Gradient, Prim};
use crate::ops::op::Op;
use crate::ops::rules::primitive::floats;
use crate::ops::rules::{X_FLOAT, like_x};

/// 2/√π ∫₀ˣ exp(-t²) dt.
pub(super) static OP: Op = Op {
    name: "erf",
    aliases: &[],
    doc: "The error function of every element.",
    params: X_FLOAT,
    random: false,
    lower: Lower::Elementwise(&PRIM),
    infer: like_x,
};

/// The primitive. VJP: dx = dy · 2/√π · exp(-x²).
pub(crate) static PRIM: Prim = Prim {
    name: "erf",
    attrs: &[],
    infer: floats,
    gradient: Gradient::Each(&[Some(|g| {
        g.dy() * std::f64::consts::FRAC_2_SQRT_PI * (-g.x(0).square()).exp()
    })]),
    eval: Eval::Float1(libm::erf),
};
