//! Rounding up.

use crate::ops::op::Op;
use crate::ops::rules::{X_FLOAT, like_x};

/// ⌈x⌉.
pub(super) static OP: Op = Op {
    name: "ceil",
    aliases: &[],
    doc: "The least whole number not below the element.",
    params: X_FLOAT,
    random: false,
    infer: like_x,
};
