//! The exponential function less one.

use crate::ops::op::Op;
use crate::ops::rules::{X_FLOAT, like_x};

/// eˣ - 1, exact also near zero.
pub(super) static OP: Op = Op {
    name: "expm1",
    aliases: &[],
    doc: "e to the power of every element, less one, exact also near zero.",
    params: X_FLOAT,
    random: false,
    infer: like_x,
};
