//! The sine.

use crate::ops::op::Op;
use crate::ops::rules::{X_FLOAT, like_x};

/// sin x.
pub(super) static OP: Op = Op {
    name: "sin",
    aliases: &[],
    doc: "The sine of every element, in radians.",
    params: X_FLOAT,
    random: false,
    infer: like_x,
};
