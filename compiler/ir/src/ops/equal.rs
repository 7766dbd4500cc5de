//! Equality.

use crate::ops::op::Op;
use crate::ops::rules::{XY_ANY, broadcast_xy_bool};

/// x = y; false for NaN.
pub(super) static OP: Op = Op {
    name: "equal",
    aliases: &[],
    doc: "Whether the elements of two tensors are equal.",
    params: XY_ANY,
    random: false,
    infer: broadcast_xy_bool,
};
