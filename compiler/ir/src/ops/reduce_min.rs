//! `tf.math.reduce_min`: the minimum over axes.

use crate::build::{Lower, Value};
use crate::graph::{AttrKind, Eval, Gradient, Prim};
use crate::ops::op::Op;
use crate::ops::rules::along::{reduce, reduced_numbers};
use crate::ops::rules::extrema::{Extremum, extremum_vjp};
use crate::ops::rules::{REDUCE_NUMBER, reduce_input};

/// min x over `axis`; over no elements the identity element, the largest number of the type.
pub(super) static OP: Op = Op {
    name: "reduce_min",
    aliases: &["min"],
    doc: "The least element over the given axes, or over all of them.",
    params: REDUCE_NUMBER,
    random: false,
    lower: Lower::By(|l| reduce(l, Extremum::Min.infinity(), Value::min)),
    infer: reduce_input,
};

/// The primitive, over axes in ascending order. NaN is propagated. VJP: ties share dy evenly.
pub(crate) static PRIM: Prim = Prim {
    name: "reduce_min",
    attrs: &[("axes", AttrKind::Sizes)],
    infer: reduced_numbers,
    gradient: Gradient::Each(&[Some(extremum_vjp)]),
    eval: Eval::Tensors(|e| Extremum::Min.reduce(e)),
};
