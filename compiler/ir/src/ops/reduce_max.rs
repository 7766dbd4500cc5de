//! `tf.math.reduce_max`: the maximum over axes.

use crate::build::{Lower, Value};
use crate::graph::{AttrKind, Eval, Gradient, Prim};
use crate::ops::op::Op;
use crate::ops::rules::along::{reduce, reduce_numbers, reduced_numbers};
use crate::ops::rules::extrema::{extremum_vjp, nan_max};
use crate::ops::rules::{REDUCE_NUMBER, reduce_input};

/// max x over `axis`; over no elements the identity element, the smallest number of the type.
pub(super) static OP: Op = Op {
    name: "reduce_max",
    aliases: &["max"],
    doc: "The greatest element over the given axes, or over all of them.",
    params: REDUCE_NUMBER,
    random: false,
    lower: Lower::By(|l| reduce(l, f64::NEG_INFINITY, Value::max)),
    infer: reduce_input,
};

/// The primitive, over axes in ascending order. NaN is propagated. VJP: ties share dy evenly.
pub(crate) static PRIM: Prim = Prim {
    name: "reduce_max",
    attrs: &[("axes", AttrKind::Sizes)],
    infer: reduced_numbers,
    gradient: Gradient::Each(&[Some(extremum_vjp)]),
    eval: Eval::Tensors(|e| {
        let max = |xs: &[f64]| xs.iter().copied().fold(f64::NEG_INFINITY, nan_max);
        let range = e.results[0].dtype.int_range();
        let int_max = |xs: &[i64]| {
            let identity = range.map_or(0, |range| range.0);
            xs.iter().fold(identity, |m, x| m.max(*x))
        };
        reduce_numbers(e, max, int_max)
    }),
};
