//! The rest of the division rounded down.

use crate::ops::op::Op;
use crate::ops::rules::{XY_NUMBER, broadcast_xy};

/// x - y · ⌊x / y⌋, which has the sign of y.
pub(super) static OP: Op = Op {
    name: "floormod",
    aliases: &[],
    doc: "The rest of the division rounded down; it has the sign of the divisor.",
    params: XY_NUMBER,
    random: false,
    infer: broadcast_xy,
};
