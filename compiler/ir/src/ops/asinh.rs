//! The inverse of the hyperbolic sine.

use crate::ops::op::Op;
use crate::ops::rules::{X_FLOAT, like_x};

/// asinh x.
pub(super) static OP: Op = Op {
    name: "asinh",
    aliases: &[],
    doc: "The number whose hyperbolic sine is the element.",
    params: X_FLOAT,
    random: false,
    infer: like_x,
};
