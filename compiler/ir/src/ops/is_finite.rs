//! Whether numbers are finite.

use crate::ops::op::Op;
use crate::ops::rules::{X_FLOAT, like_x_bool};

/// Neither infinite nor NaN.
pub(super) static OP: Op = Op {
    name: "is_finite",
    aliases: &[],
    doc: "Whether the element is a finite number.",
    params: X_FLOAT,
    random: false,
    infer: like_x_bool,
};
