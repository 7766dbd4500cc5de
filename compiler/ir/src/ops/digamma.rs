//! The derivative of `lgamma`.

use crate::ops::op::Op;
use crate::ops::rules::{X_FLOAT, like_x};

/// Γ'(x) / Γ(x).
pub(super) static OP: Op = Op {
    name: "digamma",
    aliases: &[],
    doc: "The derivative of the logarithm of the gamma function at every element.",
    params: X_FLOAT,
    random: false,
    infer: like_x,
};
