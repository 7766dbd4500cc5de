//! `tf.math.reduce_sum`: the sum over axes.

use crate::build::{Lower, Value};
use crate::graph::{AttrKind, Eval, Gradient, Prim};
use crate::ops::op::Op;
use crate::ops::rules::along::{broadcast_along, reduce, reduce_numbers, reduced_numbers};
use crate::ops::rules::{REDUCE_NUMBER, reduce_input};

/// Σ x over `axis`.
pub(super) static OP: Op = Op {
    name: "reduce_sum",
    aliases: &["sum"],
    doc: "The sum over the given axes, or over all of them.",
    params: REDUCE_NUMBER,
    random: false,
    lower: Lower::By(|l| reduce(l, 0.0, Value::sum)),
    infer: reduce_input,
};

/// The primitive, over axes in ascending order. VJP: dx = dy broadcast over the axes.
pub(crate) static PRIM: Prim = Prim {
    name: "reduce_sum",
    attrs: &[("axes", AttrKind::Sizes)],
    infer: reduced_numbers,
    gradient: Gradient::Each(&[Some(|g| {
        broadcast_along(g.dy(), g.sizes("axes"), &g.x(0).shape())
    })]),
    eval: Eval::Tensors(|e| {
        let sum = |xs: &[f64]| xs.iter().fold(0.0, |sum, x| sum + x);
        let int_sum = |xs: &[i64]| xs.iter().fold(0, |sum: i64, x| sum.wrapping_add(*x));
        reduce_numbers(e, sum, int_sum)
    }),
};
