//! `tf.math.segment_mean`: the mean of each segment, ids sorted.

use crate::build::Lower;
use crate::ops::op::Op;
use crate::ops::rules::along::accumulator_dtype;
use crate::ops::rules::segment_reduction::SegmentedRows;
use crate::ops::rules::{SEGMENT_FLOAT, segment};

/// The mean of the rows with the same id.
pub(super) static OP: Op = Op {
    name: "segment_mean",
    aliases: &[],
    doc: "The mean of the rows of each segment; ids ascend, and each is less than the number of rows.",
    params: SEGMENT_FLOAT,
    random: false,
    lower: Lower::By(|l| {
        let mut segmented = SegmentedRows::sorted(l);
        let dtype = segmented.rows.dtype();
        segmented.rows = segmented.rows.cast(accumulator_dtype(dtype));
        let mean = segmented.sum() / segmented.sizes(1.0);
        Ok(vec![mean.cast(dtype)])
    }),
    infer: segment,
};
