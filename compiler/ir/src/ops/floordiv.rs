//! Division rounded down.

use crate::ops::op::Op;
use crate::ops::rules::{XY_NUMBER, broadcast_xy};

/// ⌊x / y⌋.
pub(super) static OP: Op = Op {
    name: "floordiv",
    aliases: &[],
    doc: "The quotient rounded down, of two tensors broadcast against each other.",
    params: XY_NUMBER,
    random: false,
    infer: broadcast_xy,
};
