//! `tf.math.floordiv`: ⌊x / y⌋, floor division, elementwise with broadcasting.

use crate::build::Lower;
use crate::graph::{Eval, Gradient, Prim};
use crate::ops::op::Op;
use crate::ops::rules::primitive::numbers;
use crate::ops::rules::{XY_NUMBER, broadcast_xy};

/// ⌊x / y⌋.
pub(super) static OP: Op = Op {
    name: "floordiv",
    aliases: &[],
    doc: "The quotient rounded down, of two tensors broadcast against each other.",
    params: XY_NUMBER,
    random: false,
    lower: Lower::Elementwise(&PRIM),
    infer: broadcast_xy,
};

/// The primitive.
pub(crate) static PRIM: Prim = Prim {
    name: "floordiv",
    attrs: &[],
    infer: numbers,
    gradient: Gradient::None,
    eval: Eval::Number2(|x, y| (x / y).floor(), floor_div),
};

fn floor_div(x: i64, y: i64) -> Option<i64> {
    let quotient = x.checked_div(y)?;
    Some(if x % y != 0 && (x < 0) != (y < 0) {
        quotient - 1
    } else {
        quotient
    })
}
