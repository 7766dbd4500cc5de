//! The least over axes.

use crate::ops::op::Op;
use crate::ops::rules::{REDUCE_NUMBER, reduce_input};

/// min x over `axis`; of no elements the greatest of the type.
pub(super) static OP: Op = Op {
    name: "reduce_min",
    aliases: &["min"],
    doc: "The least element over the given axes, or over all of them.",
    params: REDUCE_NUMBER,
    random: false,
    lower: crate::build::MISSING,
    infer: reduce_input,
};
