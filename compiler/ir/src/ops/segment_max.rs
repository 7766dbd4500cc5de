//! `tf.math.segment_max`: the maximum of each segment, ids sorted.

use crate::build::Lower;
use crate::ops::op::Op;
use crate::ops::rules::segment_reduction::SegmentedRows;
use crate::ops::rules::{SEGMENT_NUMBER, segment};

/// The greatest of the rows with the same id.
pub(super) static OP: Op = Op {
    name: "segment_max",
    aliases: &[],
    doc: "The greatest of the rows of each segment; ids ascend, and each is less than the number of rows.",
    params: SEGMENT_NUMBER,
    random: false,
    // TensorFlow has 0 for empty segments here.
    lower: Lower::By(|l| {
        let segmented = SegmentedRows::sorted(l);
        Ok(vec![segmented.or_zero(segmented.max())])
    }),
    infer: segment,
};
