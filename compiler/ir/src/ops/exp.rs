//! The exponential function.

use crate::ops::op::Op;
use crate::ops::rules::{X_FLOAT, like_x};

/// eˣ.
pub(super) static OP: Op = Op {
    name: "exp",
    aliases: &[],
    doc: "e to the power of every element.",
    params: X_FLOAT,
    random: false,
    infer: like_x,
};
