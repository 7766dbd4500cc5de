//! The natural logarithm.

use crate::ops::op::Op;
use crate::ops::rules::{X_FLOAT, like_x};

/// ln x; NaN below zero.
pub(super) static OP: Op = Op {
    name: "log",
    aliases: &[],
    doc: "The natural logarithm of every element.",
    params: X_FLOAT,
    random: false,
    infer: like_x,
};
