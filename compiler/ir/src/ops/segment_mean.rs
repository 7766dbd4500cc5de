//! The mean of each segment, ids ascending.

use crate::ops::op::Op;
use crate::ops::rules::{SEGMENT_FLOAT, segment};

/// The mean of the rows with the same id.
pub(super) static OP: Op = Op {
    name: "segment_mean",
    aliases: &[],
    doc: "The mean of the rows of each segment; ids ascend, and each is less than the number of rows.",
    params: SEGMENT_FLOAT,
    random: false,
    lower: crate::build::MISSING,
    infer: segment,
};
