//! Inequality.

use crate::ops::op::Op;
use crate::ops::rules::{XY_ANY, broadcast_xy_bool};

/// x ≠ y; true for NaN.
pub(super) static OP: Op = Op {
    name: "not_equal",
    aliases: &[],
    doc: "Whether the elements of two tensors differ.",
    params: XY_ANY,
    random: false,
    infer: broadcast_xy_bool,
};
