//! Or.

use crate::ops::op::Op;
use crate::ops::rules::{XY_BOOL, broadcast_xy};

/// x ∨ y.
pub(super) static OP: Op = Op {
    name: "logical_or",
    aliases: &[],
    doc: "Whether at least one of the two elements is true.",
    params: XY_BOOL,
    random: false,
    infer: broadcast_xy,
};
