//! `tf.truncatediv`: x / y rounded toward zero, elementwise with broadcasting.

use crate::build::Lower;
use crate::graph::{Eval, Gradient, Prim};
use crate::ops::op::Op;
use crate::ops::rules::primitive::numbers;
use crate::ops::rules::{XY_NUMBER, broadcast_xy};

/// trunc(x / y).
pub(super) static OP: Op = Op {
    name: "truncatediv",
    aliases: &[],
    doc: "The quotient rounded toward zero, of two tensors broadcast against each other.",
    params: XY_NUMBER,
    random: false,
    lower: Lower::Elementwise(&PRIM),
    infer: broadcast_xy,
};

/// The primitive.
pub(crate) static PRIM: Prim = Prim {
    name: "truncatediv",
    attrs: &[],
    infer: numbers,
    gradient: Gradient::None,
    eval: Eval::Number2(|x, y| (x / y).trunc(), i64::checked_div),
};
