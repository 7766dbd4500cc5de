//! At most.

use crate::ops::op::Op;
use crate::ops::rules::{XY_NUMBER, broadcast_xy_bool};

/// x ≤ y.
pub(super) static OP: Op = Op {
    name: "less_equal",
    aliases: &[],
    doc: "Whether the first element is not greater than the second.",
    params: XY_NUMBER,
    random: false,
    infer: broadcast_xy_bool,
};
