//! `tf.math.reduce_mean`: the arithmetic mean over axes.

use crate::build::{Lower, Lowering, Value};
use crate::ops::op::{Op, RuleError};
use crate::ops::rules::along::{accumulator_dtype, reduce};
use crate::ops::rules::{REDUCE_FLOAT, reduce_input};

/// Σ x / n over `axis`.
pub(super) static OP: Op = Op {
    name: "reduce_mean",
    aliases: &["mean"],
    doc: "The mean over the given axes, or over all of them.",
    params: REDUCE_FLOAT,
    random: false,
    lower: Lower::By(lower),
    infer: reduce_input,
};

/// The sum of the elements in use, divided by their number.
fn lower<'g>(l: &Lowering<'g, '_>) -> Result<Vec<Value<'g>>, RuleError> {
    let x = l.call.tensor("x");
    reduce(l, 0.0, |value, axes| {
        let sum = value.cast(accumulator_dtype(x.dtype)).sum(axes);
        let mean = sum / l.extent(&x.shape.0, axes, sum.dtype());
        mean.cast(x.dtype)
    })
}
