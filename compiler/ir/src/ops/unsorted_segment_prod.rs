//! The product of each segment, ids in any order.

use crate::build::Lower;
use crate::graph::{AttrKind, Eval, Gradient, Prim};
use crate::ops::op::Op;
use crate::ops::rules::grouped::{Grouped, infer, of_others, reduce_rows};
use crate::ops::rules::{UNSORTED_SEGMENT, unsorted_segment};

/// The product of the rows with the same id; negative ids are left out.
pub(super) static OP: Op = Op {
    name: "unsorted_segment_prod",
    aliases: &[],
    doc: "The product of what belongs to each segment; ids come in any order, negative ones are left out.",
    params: UNSORTED_SEGMENT,
    random: false,
    lower: Lower::By(|l| {
        let groups = Grouped::unsorted(l);
        Ok(vec![groups.rows.segment_prod(groups.ids, groups.segments)])
    }),
    infer: unsorted_segment,
};

/// The primitive. A segment without rows is 1.
pub(crate) static PRIM: Prim = Prim {
    name: "unsorted_segment_prod",
    attrs: &[("segments", AttrKind::Size)],
    infer,
    gradient: Gradient::Each(&[Some(of_others), None]),
    eval: Eval::Whole(|e| reduce_rows(e, (1.0, |p, x| p * x), (1, i64::wrapping_mul))),
};
