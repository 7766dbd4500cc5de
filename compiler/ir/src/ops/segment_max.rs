//! The greatest of each segment, ids ascending.

use crate::ops::op::Op;
use crate::ops::rules::{SEGMENT_NUMBER, segment};

/// The greatest of the rows with the same id.
pub(super) static OP: Op = Op {
    name: "segment_max",
    aliases: &[],
    doc: "The greatest of the rows of each segment; ids ascend, and each is less than the number of rows.",
    params: SEGMENT_NUMBER,
    random: false,
    lower: crate::build::MISSING,
    infer: segment,
};
