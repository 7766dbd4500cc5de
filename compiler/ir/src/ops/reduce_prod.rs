//! `tf.math.reduce_prod`: the product over axes.

use crate::build::{Lower, Value};
use crate::graph::{AttrKind, Eval, Gradient, Prim};
use crate::ops::op::Op;
use crate::ops::rules::along::{broadcast_along, reduce, reduce_numbers, reduced_numbers};
use crate::ops::rules::products::product_of_others;
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

/// The primitive, over axes in ascending order. VJP: dx = dy · the product of the other elements.
pub(crate) static PRIM: Prim = Prim {
    name: "reduce_prod",
    attrs: &[("axes", AttrKind::Sizes)],
    infer: reduced_numbers,
    gradient: Gradient::Each(&[Some(|g| {
        let (x, axes) = (g.x(0), g.sizes("axes"));
        broadcast_along(g.dy(), axes, &x.shape()) * product_of_others(x, axes)
    })]),
    eval: Eval::Tensors(|e| {
        let product = |xs: &[f64]| xs.iter().fold(1.0, |product, x| product * x);
        let int_product = |xs: &[i64]| xs.iter().fold(1, |p: i64, x| p.wrapping_mul(*x));
        reduce_numbers(e, product, int_product)
    }),
};
