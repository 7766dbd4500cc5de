//! The error function.

use crate::ops::op::Op;
use crate::ops::rules::{X_FLOAT, like_x};

/// 2/√π ∫₀ˣ exp(-t²) dt.
pub(super) static OP: Op = Op {
    name: "erf",
    aliases: &[],
    doc: "The error function of every element.",
    params: X_FLOAT,
    random: false,
    infer: like_x,
};
