//! `tf.math.pow`: xʸ, elementwise with broadcasting.

use crate::autodiff::Backward;
use crate::build::{Lower, Value};
use crate::graph::{Eval, Gradient, Prim};
use crate::ops::op::Op;
use crate::ops::rules::primitive::numbers;
use crate::ops::rules::{XY_NUMBER, broadcast_xy};

/// xʸ.
pub(super) static OP: Op = Op {
    name: "pow",
    aliases: &[],
    doc: "The elements of one tensor to the power of those of another, broadcast against each other.",
    params: XY_NUMBER,
    random: false,
    lower: Lower::Elementwise(&PRIM),
    infer: broadcast_xy,
};

/// The primitive.
pub(crate) static PRIM: Prim = Prim {
    name: "pow",
    attrs: &[],
    infer: numbers,
    gradient: Gradient::Each(&[Some(base_vjp), Some(exponent_vjp)]),
    eval: Eval::Number2(libm::pow, int_pow),
};

/// The VJP with respect to the base: dy · y · xʸ⁻¹.
fn base_vjp<'g>(g: &Backward<'g>) -> Value<'g> {
    g.dy() * g.x(1) * g.x(0).pow(g.x(1) - 1.0)
}

/// The VJP with respect to the exponent: dy · xʸ · ln x, and 0 where x is not positive, as TensorFlow has it.
fn exponent_vjp<'g>(g: &Backward<'g>) -> Value<'g> {
    let (x, zero) = (g.x(0), g.x(0).like(0.0));
    let positive = x.greater(zero);
    let log = positive.select(positive.select(x, x.like(1.0)).log(), zero);
    g.dy() * g.y() * log
}

/// xʸ of integers, which wraps around; a negative exponent is undefined unless the base is 1 or -1.
fn int_pow(x: i64, y: i64) -> Option<i64> {
    match (u32::try_from(y), x) {
        (Ok(y), _) => Some(x.wrapping_pow(y)),
        (Err(_), 1) => Some(1),
        (Err(_), -1) => Some(if y % 2 == 0 { 1 } else { -1 }),
        (Err(_), 0) if y > 0 => Some(0),
        (Err(_), _) => None,
    }
}
