//! `tf.math.segment_max`: the maximum of each segment, ids sorted.

use crate::build::Lower;
use crate::ops::op::Op;
use crate::ops::rules::grouped::Grouped;
use crate::ops::rules::{SEGMENT_NUMBER, segment};

/// The greatest of the rows with the same id.
pub(super) static OP: Op = Op {
    name: "segment_max",
    aliases: &[],
    doc: "The greatest of the rows of each segment; ids ascend, and each is less than the number of rows.",
    params: SEGMENT_NUMBER,
    random: false,
    lower: Lower::By(|l| {
        let groups = Grouped::sorted(l);
        let max = groups.rows.segment_max(groups.ids, groups.segments);
        // TensorFlow has 0 for empty segments here.
        Ok(vec![groups.or_zero(max)])
    }),
    infer: segment,
};
