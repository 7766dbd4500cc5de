//! `tf.math.multiply`: x · y, elementwise with broadcasting (Hadamard product).

use crate::build::Lower;
use crate::graph::{Eval, Gradient, Prim};
use crate::ops::op::Op;
use crate::ops::rules::primitive::numbers;
use crate::ops::rules::{XY_NUMBER, broadcast_xy};

/// x · y.
pub(super) static OP: Op = Op {
    name: "multiply",
    aliases: &[],
    doc: "The product of the elements of two tensors, broadcast against each other.",
    params: XY_NUMBER,
    random: false,
    lower: Lower::Elementwise(&PRIM),
    infer: broadcast_xy,
};

/// The primitive. VJP: dx₀ = dy · x₁, dx₁ = dy · x₀.
pub(crate) static PRIM: Prim = Prim {
    name: "multiply",
    attrs: &[],
    infer: numbers,
    gradient: Gradient::Each(&[Some(|g| g.dy() * g.x(1)), Some(|g| g.dy() * g.x(0))]),
    eval: Eval::Number2(|x, y| x * y, |x, y| Some(x.wrapping_mul(y))),
};
