//! Division.

use crate::ops::op::Op;
use crate::ops::rules::{XY_FLOAT, broadcast_xy};

/// x / y, as IEEE 754 has it.
pub(super) static OP: Op = Op {
    name: "divide",
    aliases: &[],
    doc: "The quotient of two float tensors, broadcast against each other.",
    params: XY_FLOAT,
    random: false,
    infer: broadcast_xy,
};
