//! `tf.math.digamma`: ψ(x), the derivative of `lgamma`, elementwise.

use crate::build::Lower;
use crate::graph::{Eval, Gradient, Prim};
use crate::ops::op::Op;
use crate::ops::rules::primitive::floats;
use crate::ops::rules::{X_FLOAT, like_x};

/// Γ'(x) / Γ(x).
pub(super) static OP: Op = Op {
    name: "digamma",
    aliases: &[],
    doc: "The derivative of the logarithm of the gamma function at every element.",
    params: X_FLOAT,
    random: false,
    lower: Lower::Elementwise(&PRIM),
    infer: like_x,
};

/// The primitive. VJP: dx = dy · ψ⁽¹⁾(x).
pub(crate) static PRIM: Prim = Prim {
    name: "digamma",
    attrs: &[],
    infer: floats,
    gradient: Gradient::Each(&[Some(|g| g.dy() * g.x(0).polygamma(1))]),
    eval: Eval::Float1(digamma),
};

/// ψ(x): recurrence up to x ≥ 10, then the asymptotic series; reflection below 0 (Abramowitz and Stegun 6.3.5, 6.3.7, 6.3.18).
fn digamma(x: f64) -> f64 {
    super::polygamma::polygamma(0, x)
}
