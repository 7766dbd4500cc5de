//! The same tensor, cut off from gradients.

use crate::ops::op::Op;
use crate::ops::rules::{X_ANY, like_x};

/// x, of which the gradient is zero.
pub(super) static OP: Op = Op {
    name: "stop_gradient",
    aliases: &[],
    doc: "The tensor as it is; no gradient flows through.",
    params: X_ANY,
    random: false,
    infer: like_x,
};
