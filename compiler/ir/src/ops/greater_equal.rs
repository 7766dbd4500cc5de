//! At least.

use crate::ops::op::Op;
use crate::ops::rules::{XY_NUMBER, broadcast_xy_bool};

/// x ≥ y.
pub(super) static OP: Op = Op {
    name: "greater_equal",
    aliases: &[],
    doc: "Whether the first element is not less than the second.",
    params: XY_NUMBER,
    random: false,
    infer: broadcast_xy_bool,
};
