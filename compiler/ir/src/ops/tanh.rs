//! The hyperbolic tangent.

use crate::ops::op::Op;
use crate::ops::rules::{X_FLOAT, like_x};

/// tanh x = (eˣ - e⁻ˣ) / (eˣ + e⁻ˣ).
pub(super) static OP: Op = Op {
    name: "tanh",
    aliases: &[],
    doc: "The hyperbolic tangent of every element.",
    params: X_FLOAT,
    random: false,
    infer: like_x,
};
