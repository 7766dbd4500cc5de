//! The logarithm of the gamma function.

use crate::ops::op::Op;
use crate::ops::rules::{X_FLOAT, like_x};

/// ln |Γ(x)|.
pub(super) static OP: Op = Op {
    name: "lgamma",
    aliases: &[],
    doc: "The logarithm of the absolute value of the gamma function of every element.",
    params: X_FLOAT,
    random: false,
    infer: like_x,
};
