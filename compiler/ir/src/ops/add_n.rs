//! The sum of many tensors.

use crate::ops::op::{Call, Elements, Fault, Kind, Op, Param, RuleError};
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
    lower: crate::build::MISSING,
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    let inputs = call.tensors("inputs");
    let first = &inputs[0];
    for (i, other) in inputs.iter().enumerate().skip(1) {
        if other.shape != first.shape {
            return Err(RuleError::new(
                Fault::ShapeMismatch,
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
