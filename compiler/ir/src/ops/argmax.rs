//! `tf.math.argmax`: the index of the largest element along an axis.

use crate::build::Lower;
use crate::graph::{AttrKind, Eval, Gradient, Prim};
use crate::ops::op::Op;
use crate::ops::rules::along::positions;
use crate::ops::rules::extrema::Extremum;
use crate::ops::rules::{ARG_REDUCE, arg_reduce};

/// The smallest index of max x along `axis`.
pub(super) static OP: Op = Op {
    name: "argmax",
    aliases: &[],
    doc: "The position of the greatest element along an axis, the first of equal ones.",
    params: ARG_REDUCE,
    random: false,
    lower: Lower::By(|l| Extremum::Max.lower_arg(l)),
    infer: arg_reduce,
};

/// The primitive. NaN never compares greater; where all elements are NaN, the index is 0.
pub(crate) static PRIM: Prim = Prim {
    name: "argmax",
    attrs: &[("axis", AttrKind::Size)],
    infer: positions,
    gradient: Gradient::None,
    eval: Eval::Tensors(|e| Extremum::Max.reduce_arg(e)),
};
