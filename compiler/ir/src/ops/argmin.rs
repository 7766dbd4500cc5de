//! `tf.math.argmin`: the index of the smallest element along an axis.

use crate::build::Lower;
use crate::graph::{AttrKind, Eval, Gradient, Prim};
use crate::ops::op::Op;
use crate::ops::rules::along::positions;
use crate::ops::rules::extrema::Extremum;
use crate::ops::rules::{ARG_REDUCE, arg_reduce};

/// The smallest index of min x along `axis`.
pub(super) static OP: Op = Op {
    name: "argmin",
    aliases: &[],
    doc: "The position of the least element along an axis, the first of equal ones.",
    params: ARG_REDUCE,
    random: false,
    lower: Lower::By(|l| Extremum::Min.lower_arg(l)),
    infer: arg_reduce,
};

/// The primitive. NaN never compares less; where all elements are NaN, the index is 0.
pub(crate) static PRIM: Prim = Prim {
    name: "argmin",
    attrs: &[("axis", AttrKind::Size)],
    infer: positions,
    gradient: Gradient::None,
    eval: Eval::Tensors(|e| Extremum::Min.reduce_arg(e)),
};
