//! `tf.truncatemod`: the remainder of truncated division, elementwise with broadcasting.

use crate::build::{Lower, Value};
use crate::graph::{Eval, Gradient, Prim};
use crate::ops::op::Op;
use crate::ops::rules::primitive::numbers;
use crate::ops::rules::{XY_NUMBER, broadcast_xy};

/// x - y · trunc(x / y), which has the sign of x.
pub(super) static OP: Op = Op {
    name: "truncatemod",
    aliases: &[],
    doc: "The remainder of the division rounded toward zero; it has the sign of the dividend.",
    params: XY_NUMBER,
    random: false,
    lower: Lower::Elementwise(&PRIM),
    infer: broadcast_xy,
};

/// The primitive. VJP: dx₀ = dy, dx₁ = -dy · trunc(x₀ / x₁).
pub(crate) static PRIM: Prim = Prim {
    name: "truncatemod",
    attrs: &[],
    infer: numbers,
    gradient: Gradient::Each(&[
        Some(|g| g.dy()),
        Some(|g| -g.dy() * truncate(g.x(0) / g.x(1))),
    ]),
    eval: Eval::Number2(|x, y| x % y, i64::checked_rem),
};

/// trunc(x): rounded toward zero.
fn truncate(x: Value<'_>) -> Value<'_> {
    x.sign() * x.abs().floor()
}
