//! `tf.math.segment_min`: the minimum of each segment, ids sorted.

use crate::build::Lower;
use crate::ops::op::Op;
use crate::ops::rules::segment_reduction::SegmentedRows;
use crate::ops::rules::{SEGMENT_NUMBER, segment};

/// The least of the rows with the same id.
pub(super) static OP: Op = Op {
    name: "segment_min",
    aliases: &[],
    doc: "The least of the rows of each segment; ids ascend, and each is less than the number of rows.",
    params: SEGMENT_NUMBER,
    random: false,
    // TensorFlow has 0 for empty segments here.
    lower: Lower::By(|l| {
        let segmented = SegmentedRows::sorted(l);
        Ok(vec![segmented.or_zero(segmented.min())])
    }),
    infer: segment,
};
