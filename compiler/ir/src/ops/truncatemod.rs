//! The rest of the division rounded towards zero.

use crate::ops::op::Op;
use crate::ops::rules::{XY_NUMBER, broadcast_xy};

/// x - y · trunc(x / y), which has the sign of x.
pub(super) static OP: Op = Op {
    name: "truncatemod",
    aliases: &[],
    doc: "The rest of the division rounded towards zero; it has the sign of the dividend.",
    params: XY_NUMBER,
    random: false,
    infer: broadcast_xy,
};
