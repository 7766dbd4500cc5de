//! `tf.math.floormod`: the remainder of floor division, elementwise with broadcasting.

use crate::build::Lower;
use crate::graph::{Eval, Gradient, Prim};
use crate::ops::op::Op;
use crate::ops::rules::primitive::numbers;
use crate::ops::rules::{XY_NUMBER, broadcast_xy};

/// x - y · ⌊x / y⌋, which has the sign of y.
pub(super) static OP: Op = Op {
    name: "floormod",
    aliases: &[],
    doc: "The remainder of the division rounded down; it has the sign of the divisor.",
    params: XY_NUMBER,
    random: false,
    lower: Lower::Elementwise(&PRIM),
    infer: broadcast_xy,
};

/// The primitive. VJP: dx₀ = dy, dx₁ = -dy · ⌊x₀ / x₁⌋.
pub(crate) static PRIM: Prim = Prim {
    name: "floormod",
    attrs: &[],
    infer: numbers,
    gradient: Gradient::Each(&[
        Some(|g| g.dy()),
        Some(|g| -g.dy() * (g.x(0) / g.x(1)).floor()),
    ]),
    eval: Eval::Number2(floor_mod, int_floor_mod),
};

/// x - y ⌊x / y⌋, exactly, with the sign of y.
fn floor_mod(x: f64, y: f64) -> f64 {
    let remainder = x % y;
    if remainder != 0.0 && (remainder < 0.0) != (y < 0.0) {
        remainder + y
    } else {
        remainder
    }
}

fn int_floor_mod(x: i64, y: i64) -> Option<i64> {
    let remainder = if y == -1 { 0 } else { x.checked_rem(y)? };
    Some(if remainder != 0 && (remainder < 0) != (y < 0) {
        remainder + y
    } else {
        remainder
    })
}
