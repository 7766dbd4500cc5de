//! The greatest over axes.

use crate::ops::op::Op;
use crate::ops::rules::{REDUCE_NUMBER, reduce_input};

/// max x over `axis`; of no elements the least of the type.
pub(super) static OP: Op = Op {
    name: "reduce_max",
    aliases: &["max"],
    doc: "The greatest element over the given axes, or over all of them.",
    params: REDUCE_NUMBER,
    random: false,
    lower: crate::build::MISSING,
    infer: reduce_input,
};
