//! The mean over axes.

use crate::ops::op::Op;
use crate::ops::rules::{REDUCE_FLOAT, reduce_input};

/// Σ x / n over `axis`.
pub(super) static OP: Op = Op {
    name: "reduce_mean",
    aliases: &["mean"],
    doc: "The mean over the given axes, or over all of them.",
    params: REDUCE_FLOAT,
    random: false,
    lower: crate::build::MISSING,
    infer: reduce_input,
};
