//! `tf.math.unsorted_segment_sum`: the sum of each segment, ids in any order.

use crate::build::Lower;
use crate::ops::op::Op;
use crate::ops::rules::segment_reduction::SegmentedRows;
use crate::ops::rules::{UNSORTED_SEGMENT, unsorted_segment};

/// The sum of the rows with the same id; negative ids are left out.
pub(super) static OP: Op = Op {
    name: "unsorted_segment_sum",
    aliases: &[],
    doc: "The sum of what belongs to each segment; ids come in any order, negative ones are left out.",
    params: UNSORTED_SEGMENT,
    random: false,
    lower: Lower::By(|l| Ok(vec![SegmentedRows::unsorted(l).sum()])),
    infer: unsorted_segment,
};
