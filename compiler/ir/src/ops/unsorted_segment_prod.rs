//! `tf.math.unsorted_segment_prod`: the product of each segment, ids in any order.

use crate::build::Lower;
use crate::graph::{AttrKind, Eval, Gradient, Prim};
use crate::ops::op::Op;
use crate::ops::rules::segment_reduction::{
    SegmentedRows, infer, reduce_rows, segment_product_vjp,
};
use crate::ops::rules::{UNSORTED_SEGMENT, unsorted_segment};

/// The product of the rows with the same id; negative ids are left out.
pub(super) static OP: Op = Op {
    name: "unsorted_segment_prod",
    aliases: &[],
    doc: "The product of what belongs to each segment; ids come in any order, negative ones are left out.",
    params: UNSORTED_SEGMENT,
    random: false,
    lower: Lower::By(|l| Ok(vec![SegmentedRows::unsorted(l).prod()])),
    infer: unsorted_segment,
};

/// The primitive. An empty segment is 1. VJP: dy times the product of the segment's other rows.
pub(crate) static PRIM: Prim = Prim {
    name: "unsorted_segment_prod",
    attrs: &[("segments", AttrKind::Size)],
    infer,
    gradient: Gradient::Each(&[Some(segment_product_vjp), None]),
    eval: Eval::Tensors(|e| reduce_rows(e, (1.0, |p, x| p * x), (1, i64::wrapping_mul))),
};
