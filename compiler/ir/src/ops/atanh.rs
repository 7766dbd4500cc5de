//! The inverse of the hyperbolic tangent.

use crate::ops::op::Op;
use crate::ops::rules::{X_FLOAT, like_x};

/// atanh x; NaN outside of -1 to 1.
pub(super) static OP: Op = Op {
    name: "atanh",
    aliases: &[],
    doc: "The number whose hyperbolic tangent is the element.",
    params: X_FLOAT,
    random: false,
    infer: like_x,
};
