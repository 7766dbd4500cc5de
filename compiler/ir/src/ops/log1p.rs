//! The natural logarithm of one more.

use crate::ops::op::Op;
use crate::ops::rules::{X_FLOAT, like_x};

/// ln (1 + x), exact also near zero.
pub(super) static OP: Op = Op {
    name: "log1p",
    aliases: &[],
    doc: "The natural logarithm of one plus every element, exact also near zero.",
    params: X_FLOAT,
    random: false,
    infer: like_x,
};
