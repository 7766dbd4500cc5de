//! The inverse of the hyperbolic cosine.

use crate::ops::op::Op;
use crate::ops::rules::{X_FLOAT, like_x};

/// acosh x; NaN below one.
pub(super) static OP: Op = Op {
    name: "acosh",
    aliases: &[],
    doc: "The number from zero up whose hyperbolic cosine is the element.",
    params: X_FLOAT,
    random: false,
    infer: like_x,
};
