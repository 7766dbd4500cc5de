//! The reciprocal of the square root.

use crate::ops::op::Op;
use crate::ops::rules::{X_FLOAT, like_x};

/// 1 / √x.
pub(super) static OP: Op = Op {
    name: "rsqrt",
    aliases: &[],
    doc: "One over the square root of every element.",
    params: X_FLOAT,
    random: false,
    infer: like_x,
};
