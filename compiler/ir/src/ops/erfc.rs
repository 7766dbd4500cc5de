//! The complement of the error function.

use crate::ops::op::Op;
use crate::ops::rules::{X_FLOAT, like_x};

/// 1 - erf x, exact also far out.
pub(super) static OP: Op = Op {
    name: "erfc",
    aliases: &[],
    doc: "One less the error function of every element, exact also far out.",
    params: X_FLOAT,
    random: false,
    infer: like_x,
};
