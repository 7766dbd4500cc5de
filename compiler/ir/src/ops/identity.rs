//! The same tensor.

use crate::ops::op::Op;
use crate::ops::rules::{X_ANY, like_x};

/// x.
pub(super) static OP: Op = Op {
    name: "identity",
    aliases: &[],
    doc: "The tensor as it is.",
    params: X_ANY,
    random: false,
    lower: crate::build::MISSING,
    infer: like_x,
};
