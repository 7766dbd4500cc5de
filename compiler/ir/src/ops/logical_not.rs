//! Not.

use crate::ops::op::Op;
use crate::ops::rules::{X_BOOL, like_x};

/// ¬x.
pub(super) static OP: Op = Op {
    name: "logical_not",
    aliases: &[],
    doc: "Whether the element is false.",
    params: X_BOOL,
    random: false,
    infer: like_x,
};
