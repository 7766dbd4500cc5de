//! Division rounded towards zero.

use crate::ops::op::Op;
use crate::ops::rules::{XY_NUMBER, broadcast_xy};

/// x / y without what is behind the point.
pub(super) static OP: Op = Op {
    name: "truncatediv",
    aliases: &[],
    doc: "The quotient rounded towards zero, of two tensors broadcast against each other.",
    params: XY_NUMBER,
    random: false,
    infer: broadcast_xy,
};
