//! The greater of two.

use crate::ops::op::Op;
use crate::ops::rules::{XY_NUMBER, broadcast_xy};

/// max(x, y); NaN if either is.
pub(super) static OP: Op = Op {
    name: "maximum",
    aliases: &[],
    doc: "The greater of the elements of two tensors, broadcast against each other.",
    params: XY_NUMBER,
    random: false,
    infer: broadcast_xy,
};
