//! The tangent.

use crate::ops::op::Op;
use crate::ops::rules::{X_FLOAT, like_x};

/// tan x.
pub(super) static OP: Op = Op {
    name: "tan",
    aliases: &[],
    doc: "The tangent of every element, in radians.",
    params: X_FLOAT,
    random: false,
    infer: like_x,
};
