//! The logistic function.

use crate::ops::op::Op;
use crate::ops::rules::{X_FLOAT, like_x};

/// 1 / (1 + e⁻ˣ).
pub(super) static OP: Op = Op {
    name: "sigmoid",
    aliases: &[],
    doc: "The logistic function of every element.",
    params: X_FLOAT,
    random: false,
    infer: like_x,
};
