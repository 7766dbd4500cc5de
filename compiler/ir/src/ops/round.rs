//! Rounding to the nearest.

use crate::ops::op::Op;
use crate::ops::rules::{X_NUMBER, like_x};

/// The nearest whole number, halves going to the even one.
pub(super) static OP: Op = Op {
    name: "round",
    aliases: &[],
    doc: "The whole number nearest to the element; halves go to the even one.",
    params: X_NUMBER,
    random: false,
    infer: like_x,
};
