//! The product over axes.

use crate::ops::op::Op;
use crate::ops::rules::{REDUCE_NUMBER, reduce_input};

/// Π x over `axis`.
pub(super) static OP: Op = Op {
    name: "reduce_prod",
    aliases: &["prod"],
    doc: "The product over the given axes, or over all of them.",
    params: REDUCE_NUMBER,
    random: false,
    lower: crate::build::MISSING,
    infer: reduce_input,
};
