//! The lesser of two.

use crate::ops::op::Op;
use crate::ops::rules::{XY_NUMBER, broadcast_xy};

/// min(x, y); NaN if either is.
pub(super) static OP: Op = Op {
    name: "minimum",
    aliases: &[],
    doc: "The lesser of the elements of two tensors, broadcast against each other.",
    params: XY_NUMBER,
    random: false,
    infer: broadcast_xy,
};
