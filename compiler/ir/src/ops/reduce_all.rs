//! `tf.math.reduce_all`: logical and over axes.

use crate::build::{Lower, Value};
use crate::graph::{AttrKind, Eval, Gradient, Prim};
use crate::ops::op::Op;
use crate::ops::rules::along::{reduce, reduce_axes, reduced_bools};
use crate::ops::rules::{REDUCE_BOOL, reduce_input};

/// ∀ x over `axis`.
pub(super) static OP: Op = Op {
    name: "reduce_all",
    aliases: &["all"],
    doc: "Whether every element over the given axes, or over all of them, is true.",
    params: REDUCE_BOOL,
    random: false,
    lower: Lower::By(|l| reduce(l, 1.0, Value::all)),
    infer: reduce_input,
};

/// The primitive, over axes in ascending order.
pub(crate) static PRIM: Prim = Prim {
    name: "reduce_all",
    attrs: &[("axes", AttrKind::Sizes)],
    infer: reduced_bools,
    gradient: Gradient::None,
    eval: Eval::Tensors(|e| {
        let all = |xs: &[bool]| xs.iter().all(|x| *x);
        Ok(vec![
            reduce_axes(e.x(0).bool(), e.sizes("axes"), all).into(),
        ])
    }),
};
