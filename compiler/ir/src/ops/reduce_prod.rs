//! The product over axes.

use crate::build::{Lower, Value};
use crate::graph::{AttrKind, Eval, Gradient, Prim};
use crate::ops::op::Op;
use crate::ops::rules::along::{reduce, reduce_numbers, reduced_numbers, spread};
use crate::ops::rules::products::of_others;
use crate::ops::rules::{REDUCE_NUMBER, reduce_input};

/// Π x over `axis`.
pub(super) static OP: Op = Op {
    name: "reduce_prod",
    aliases: &["prod"],
    doc: "The product over the given axes, or over all of them.",
    params: REDUCE_NUMBER,
    random: false,
    lower: Lower::By(|l| reduce(l, 1.0, Value::prod)),
    infer: reduce_input,
};

/// The primitive, over axes in ascending order.
pub(crate) static PRIM: Prim = Prim {
    name: "reduce_prod",
    attrs: &[("axes", AttrKind::Sizes)],
    infer: reduced_numbers,
    gradient: Gradient::Each(&[Some(|g| {
        let (x, axes) = (g.x(0), g.sizes("axes"));
        spread(g.dy(), axes, &x.shape()) * of_others(x, axes)
    })]),
    eval: Eval::Whole(|e| {
        let product = |xs: &[f64]| xs.iter().fold(1.0, |product, x| product * x);
        let int_product = |xs: &[i64]| xs.iter().fold(1, |p: i64, x| p.wrapping_mul(*x));
        reduce_numbers(e, product, int_product)
    }),
};
