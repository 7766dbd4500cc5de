//! Powers.

use crate::ops::op::Op;
use crate::ops::rules::{XY_NUMBER, broadcast_xy};

/// xʸ.
pub(super) static OP: Op = Op {
    name: "pow",
    aliases: &[],
    doc: "The elements of one tensor to the power of those of another, broadcast against each other.",
    params: XY_NUMBER,
    random: false,
    infer: broadcast_xy,
};
