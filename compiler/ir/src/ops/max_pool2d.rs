//! The greatest under a moving window.

use crate::ops::op::Op;
use crate::ops::rules::{POOL_NUMBER, pool};

/// max over the window; padding never counts.
pub(super) static OP: Op = Op {
    name: "max_pool2d",
    aliases: &[],
    doc: "The greatest element under a window that moves over height and width.",
    params: POOL_NUMBER,
    random: false,
    lower: crate::build::MISSING,
    infer: pool,
};
