//! The sum over axes.

use crate::ops::op::Op;
use crate::ops::rules::{REDUCE_NUMBER, reduce_input};

/// Σ x over `axis`.
pub(super) static OP: Op = Op {
    name: "reduce_sum",
    aliases: &["sum"],
    doc: "The sum over the given axes, or over all of them.",
    params: REDUCE_NUMBER,
    random: false,
    lower: crate::build::MISSING,
    infer: reduce_input,
};
