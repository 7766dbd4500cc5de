//! The sign turned.

use crate::ops::op::Op;
use crate::ops::rules::{X_NUMBER, like_x};

/// -x.
pub(super) static OP: Op = Op {
    name: "negative",
    aliases: &[],
    doc: "Every element with its sign turned.",
    params: X_NUMBER,
    random: false,
    infer: like_x,
};
