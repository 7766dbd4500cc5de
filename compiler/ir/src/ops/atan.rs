//! The inverse of the tangent.

use crate::ops::op::Op;
use crate::ops::rules::{X_FLOAT, like_x};

/// atan x, from -π/2 to π/2.
pub(super) static OP: Op = Op {
    name: "atan",
    aliases: &[],
    doc: "The angle whose tangent is the element.",
    params: X_FLOAT,
    random: false,
    infer: like_x,
};
