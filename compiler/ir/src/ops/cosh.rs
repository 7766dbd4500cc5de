//! The hyperbolic cosine.

use crate::ops::op::Op;
use crate::ops::rules::{X_FLOAT, like_x};

/// cosh x = (eˣ + e⁻ˣ) / 2.
pub(super) static OP: Op = Op {
    name: "cosh",
    aliases: &[],
    doc: "The hyperbolic cosine of every element.",
    params: X_FLOAT,
    random: false,
    infer: like_x,
};
