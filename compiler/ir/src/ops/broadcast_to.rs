//! A tensor stretched to a shape.

use crate::ops::op::{Call, Elements, Fault, Kind, Op, Param, RuleError};
use crate::ops::rules::{broadcast, exact_sizes, fits};
use crate::types::{Class, TensorType};

/// x with its dimensions of 1 stretched to `shape`.
pub(super) static OP: Op = Op {
    name: "broadcast_to",
    aliases: &[],
    doc: "A tensor with dimensions of 1 repeated, and dimensions put in front, to make up a shape.",
    params: &[
        Param::required("x", Kind::Tensor(Elements::Same("T", Class::Any))),
        Param::required("shape", Kind::Ints),
    ],
    random: false,
    lower: crate::build::MISSING,
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    let x = call.tensor("x");
    let shape = exact_sizes("shape", call.sizes("shape"))?;
    if broadcast(&x.shape, &shape)? != shape {
        return Err(RuleError::new(
            Fault::ShapeMismatch,
            format!("{} does not stretch to {shape}", x.shape),
        )
        .at("shape"));
    }
    fits(TensorType::new(x.dtype, shape))
}
