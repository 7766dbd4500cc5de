//! The inverse of the cosine.

use crate::ops::op::Op;
use crate::ops::rules::{X_FLOAT, like_x};

/// acos x, from 0 to π.
pub(super) static OP: Op = Op {
    name: "acos",
    aliases: &[],
    doc: "The angle whose cosine is the element.",
    params: X_FLOAT,
    random: false,
    infer: like_x,
};
