//! The hyperbolic sine.

use crate::ops::op::Op;
use crate::ops::rules::{X_FLOAT, like_x};

/// sinh x = (eˣ - e⁻ˣ) / 2.
pub(super) static OP: Op = Op {
    name: "sinh",
    aliases: &[],
    doc: "The hyperbolic sine of every element.",
    params: X_FLOAT,
    random: false,
    infer: like_x,
};
