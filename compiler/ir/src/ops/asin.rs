//! The inverse of the sine.

use crate::ops::op::Op;
use crate::ops::rules::{X_FLOAT, like_x};

/// asin x, from -π/2 to π/2.
pub(super) static OP: Op = Op {
    name: "asin",
    aliases: &[],
    doc: "The angle whose sine is the element.",
    params: X_FLOAT,
    random: false,
    infer: like_x,
};
