//! `tf.math.add`: x + y, elementwise with broadcasting.

use crate::build::Lower;
use crate::graph::{Eval, Gradient, Prim};
use crate::ops::op::Op;
use crate::ops::rules::primitive::numbers;
use crate::ops::rules::{XY_NUMBER, broadcast_xy};

/// x + y.
pub(super) static OP: Op = Op {
    name: "add",
    aliases: &[],
    doc: "The sum of two tensors, broadcast against each other.",
    params: XY_NUMBER,
    random: false,
    lower: Lower::Elementwise(&PRIM),
    infer: broadcast_xy,
};

/// The primitive. VJP: dx₀ = dx₁ = dy.
pub(crate) static PRIM: Prim = Prim {
    name: "add",
    attrs: &[],
    infer: numbers,
    gradient: Gradient::Each(&[Some(|g| g.dy()), Some(|g| g.dy())]),
    eval: Eval::Number2(|x, y| x + y, |x, y| Some(x.wrapping_add(y))),
};
