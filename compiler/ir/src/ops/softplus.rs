//! A smooth ramp.

use crate::ops::op::Op;
use crate::ops::rules::{X_FLOAT, like_x};

/// ln (1 + eˣ).
pub(super) static OP: Op = Op {
    name: "softplus",
    aliases: &[],
    doc: "The logarithm of one plus e to the power of every element.",
    params: X_FLOAT,
    random: false,
    infer: like_x,
};
