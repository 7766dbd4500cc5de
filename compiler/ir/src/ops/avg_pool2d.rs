//! The mean under a moving window.

use crate::ops::op::Op;
use crate::ops::rules::{POOL_FLOAT, pool};

/// The mean over the window; padding never counts.
pub(super) static OP: Op = Op {
    name: "avg_pool2d",
    aliases: &[],
    doc: "The mean of the elements under a window that moves over height and width.",
    params: POOL_FLOAT,
    random: false,
    lower: crate::build::MISSING,
    infer: pool,
};
