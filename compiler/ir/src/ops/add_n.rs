//! `tf.math.add_n`: the sum of a list of tensors of one shape, left to right.

use crate::build::{Lower, Value};
use crate::ops::op::{Call, Elements, Kind, Op, Param, RuleError, RuleErrorKind};
use crate::types::{Class, TensorType};

/// Σ of the tensors, in their order.
pub(super) static OP: Op = Op {
    name: "add_n",
    aliases: &[],
    doc: "The sum of a list of tensors of one shape.",
    params: &[Param::required(
        "inputs",
        Kind::Tensors(Elements::Same("T", Class::Number)),
    )],
    random: false,
    lower: Lower::By(|l| Ok(vec![in_order(l.values("inputs"))])),
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    let inputs = call.tensors("inputs");
    let first = &inputs[0];
    for (i, other) in inputs.iter().enumerate().skip(1) {
        if other.shape != first.shape {
            return Err(RuleError::new(
                RuleErrorKind::ShapeMismatch,
                format!(
                    "tensors 0 and {i} differ in shape: {} and {}",
                    first.shape, other.shape
                ),
            )
            .at("inputs")
            .help("`+` broadcasts, `add_n` does not"));
        }
    }
    Ok(vec![first.clone()])
}

fn in_order<'g>(inputs: &[Value<'g>]) -> Value<'g> {
    let sum = inputs.iter().copied().reduce(|sum, x| sum + x);
    sum.expect("a list of tensors is never empty")
}
