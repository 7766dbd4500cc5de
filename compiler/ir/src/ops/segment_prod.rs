//! `tf.math.segment_prod`: the product of each segment, ids sorted.

use crate::build::Lower;
use crate::ops::op::Op;
use crate::ops::rules::segment_reduction::SegmentedRows;
use crate::ops::rules::{SEGMENT_NUMBER, segment};

/// The product of the rows with the same id.
pub(super) static OP: Op = Op {
    name: "segment_prod",
    aliases: &[],
    doc: "The product of the rows of each segment; ids ascend, and each is less than the number of rows.",
    params: SEGMENT_NUMBER,
    random: false,
    lower: Lower::By(|l| Ok(vec![SegmentedRows::sorted(l).prod()])),
    infer: segment,
};
