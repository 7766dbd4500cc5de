//! Rounding down.

use crate::ops::op::Op;
use crate::ops::rules::{X_FLOAT, like_x};

/// ⌊x⌋.
pub(super) static OP: Op = Op {
    name: "floor",
    aliases: &[],
    doc: "The greatest whole number not above the element.",
    params: X_FLOAT,
    random: false,
    infer: like_x,
};
