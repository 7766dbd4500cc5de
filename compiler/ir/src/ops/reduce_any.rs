//! Or over axes.

use crate::ops::op::Op;
use crate::ops::rules::{REDUCE_BOOL, reduce_input};

/// ∃ x over `axis`.
pub(super) static OP: Op = Op {
    name: "reduce_any",
    aliases: &["any"],
    doc: "Whether some element over the given axes, or over all of them, is true.",
    params: REDUCE_BOOL,
    random: false,
    lower: crate::build::MISSING,
    infer: reduce_input,
};
