//! `tf.math.reduce_min`: the minimum over axes.

use crate::build::{Lower, Value};
use crate::graph::{AttrKind, Eval, Gradient, Prim};
use crate::ops::op::Op;
use crate::ops::rules::along::{reduce, reduce_numbers, reduced_numbers};
use crate::ops::rules::extrema::{extremum_vjp, nan_min};
use crate::ops::rules::{REDUCE_NUMBER, reduce_input};

/// min x over `axis`; over no elements the identity element, the largest number of the type.
pub(super) static OP: Op = Op {
    name: "reduce_min",
    aliases: &["min"],
    doc: "The least element over the given axes, or over all of them.",
    params: REDUCE_NUMBER,
    random: false,
    lower: Lower::By(|l| reduce(l, f64::INFINITY, Value::min)),
    infer: reduce_input,
};

/// The primitive, over axes in ascending order. NaN is propagated. VJP: ties share dy evenly.
pub(crate) static PRIM: Prim = Prim {
    name: "reduce_min",
    attrs: &[("axes", AttrKind::Sizes)],
    infer: reduced_numbers,
    gradient: Gradient::Each(&[Some(extremum_vjp)]),
    eval: Eval::Tensors(|e| {
        let min = |xs: &[f64]| xs.iter().copied().fold(f64::INFINITY, nan_min);
        let range = e.results[0].dtype.int_range();
        let int_min = |xs: &[i64]| {
            let identity = range.map_or(0, |range| range.1);
            xs.iter().fold(identity, |m, x| m.min(*x))
        };
        reduce_numbers(e, min, int_min)
    }),
};
