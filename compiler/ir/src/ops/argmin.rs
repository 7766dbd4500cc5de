//! Where the least element is.

use crate::ops::op::Op;
use crate::ops::rules::{ARG_REDUCE, arg_reduce};

/// The least position of min x along `axis`.
pub(super) static OP: Op = Op {
    name: "argmin",
    aliases: &[],
    doc: "The position of the least element along an axis, the first of equal ones.",
    params: ARG_REDUCE,
    random: false,
    lower: crate::build::MISSING,
    infer: arg_reduce,
};
