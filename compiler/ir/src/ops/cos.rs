//! The cosine.

use crate::ops::op::Op;
use crate::ops::rules::{X_FLOAT, like_x};

/// cos x.
pub(super) static OP: Op = Op {
    name: "cos",
    aliases: &[],
    doc: "The cosine of every element, in radians.",
    params: X_FLOAT,
    random: false,
    infer: like_x,
};
