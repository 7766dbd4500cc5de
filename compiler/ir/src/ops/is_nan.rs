//! Whether numbers are NaN.

use crate::ops::op::Op;
use crate::ops::rules::{X_FLOAT, like_x_bool};

/// x ≠ x.
pub(super) static OP: Op = Op {
    name: "is_nan",
    aliases: &[],
    doc: "Whether the element is not a number.",
    params: X_FLOAT,
    random: false,
    infer: like_x_bool,
};
