//! `tf.math.divide`: x / y of floats, elementwise with broadcasting.

use crate::build::Lower;
use crate::graph::{Eval, Gradient, Prim};
use crate::ops::op::Op;
use crate::ops::rules::primitive::floats;
use crate::ops::rules::{XY_FLOAT, broadcast_xy};

/// x / y, as IEEE 754 has it.
pub(super) static OP: Op = Op {
    name: "divide",
    aliases: &[],
    doc: "The quotient of two float tensors, broadcast against each other.",
    params: XY_FLOAT,
    random: false,
    lower: Lower::Elementwise(&PRIM),
    infer: broadcast_xy,
};

/// The primitive. VJP: dx₀ = dy / x₁, dx₁ = -dy · y / x₁.
pub(crate) static PRIM: Prim = Prim {
    name: "divide",
    attrs: &[],
    infer: floats,
    gradient: Gradient::Each(&[
        Some(|g| g.dy() / g.x(1)),
        Some(|g| -g.dy() * g.y() / g.x(1)),
    ]),
    eval: Eval::Float2(|x, y| x / y),
};
