//! The sign.

use crate::ops::op::Op;
use crate::ops::rules::{X_NUMBER, like_x};

/// -1, 0 or 1; NaN for NaN.
pub(super) static OP: Op = Op {
    name: "sign",
    aliases: &[],
    doc: "The sign of every element: -1, 0 or 1.",
    params: X_NUMBER,
    random: false,
    infer: like_x,
};
