//! `tf.math.unsorted_segment_min`: the minimum of each segment, ids in any order.

use crate::build::Lower;
use crate::graph::{AttrKind, Eval, Gradient, Prim};
use crate::ops::op::Op;
use crate::ops::rules::extrema::Extremum;
use crate::ops::rules::segment_reduction::{
    SegmentedRows, infer, reduce_extremum, segment_extremum_vjp,
};
use crate::ops::rules::{UNSORTED_SEGMENT, unsorted_segment};

/// The least of the rows with the same id; negative ids are left out.
pub(super) static OP: Op = Op {
    name: "unsorted_segment_min",
    aliases: &[],
    doc: "The least of what belongs to each segment; ids come in any order, negative ones are left out.",
    params: UNSORTED_SEGMENT,
    random: false,
    lower: Lower::By(|l| Ok(vec![SegmentedRows::unsorted(l).min()])),
    infer: unsorted_segment,
};

/// The primitive. An empty segment is the largest number of the type; NaN is propagated. VJP: ties share dy evenly.
pub(crate) static PRIM: Prim = Prim {
    name: "unsorted_segment_min",
    attrs: &[("segments", AttrKind::Size)],
    infer,
    gradient: Gradient::Each(&[Some(segment_extremum_vjp), None]),
    eval: Eval::Tensors(|e| reduce_extremum(e, Extremum::Min)),
};
