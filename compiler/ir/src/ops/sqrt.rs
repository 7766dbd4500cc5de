//! The square root.

use crate::ops::op::Op;
use crate::ops::rules::{X_FLOAT, like_x};

/// √x; NaN below zero.
pub(super) static OP: Op = Op {
    name: "sqrt",
    aliases: &[],
    doc: "The square root of every element.",
    params: X_FLOAT,
    random: false,
    infer: like_x,
};
