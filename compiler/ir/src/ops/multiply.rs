//! Multiplication of elements.

use crate::ops::op::Op;
use crate::ops::rules::{XY_NUMBER, broadcast_xy};

/// x · y.
pub(super) static OP: Op = Op {
    name: "multiply",
    aliases: &[],
    doc: "The product of the elements of two tensors, broadcast against each other.",
    params: XY_NUMBER,
    random: false,
    infer: broadcast_xy,
};
