//! The absolute value.

use crate::ops::op::Op;
use crate::ops::rules::{X_NUMBER, like_x};

/// |x|.
pub(super) static OP: Op = Op {
    name: "abs",
    aliases: &[],
    doc: "The absolute value of every element.",
    params: X_NUMBER,
    random: false,
    infer: like_x,
};
