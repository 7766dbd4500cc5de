//! And.

use crate::ops::op::Op;
use crate::ops::rules::{XY_BOOL, broadcast_xy};

/// x ∧ y.
pub(super) static OP: Op = Op {
    name: "logical_and",
    aliases: &[],
    doc: "Whether both elements are true.",
    params: XY_BOOL,
    random: false,
    infer: broadcast_xy,
};
