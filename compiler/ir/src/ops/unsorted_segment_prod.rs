//! The product of each segment, ids in any order.

use crate::ops::op::Op;
use crate::ops::rules::{UNSORTED_SEGMENT, unsorted_segment};

/// The product of the rows with the same id; negative ids are left out.
pub(super) static OP: Op = Op {
    name: "unsorted_segment_prod",
    aliases: &[],
    doc: "The product of what belongs to each segment; ids come in any order, negative ones are left out.",
    params: UNSORTED_SEGMENT,
    random: false,
    lower: crate::build::MISSING,
    infer: unsorted_segment,
};
