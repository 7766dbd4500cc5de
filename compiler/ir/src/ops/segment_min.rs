//! The least of each segment, ids ascending.

use crate::ops::op::Op;
use crate::ops::rules::{SEGMENT_NUMBER, segment};

/// The least of the rows with the same id.
pub(super) static OP: Op = Op {
    name: "segment_min",
    aliases: &[],
    doc: "The least of the rows of each segment; ids ascend, and each is less than the number of rows.",
    params: SEGMENT_NUMBER,
    random: false,
    lower: crate::build::MISSING,
    infer: segment,
};
