//! The different values of a vector.

use crate::ops::op::{Call, Elements, Kind, Op, Param, RuleError};
use crate::ops::rules::dims;
use crate::types::{Class, DType, Dim, TensorType};

/// Each value of x once, in the order of first appearance, and for each element which it is.
pub(super) static OP: Op = Op {
    name: "unique",
    aliases: &[],
    doc: "The different elements of a vector, in the order in which they first appear, and for each element the position of its value.",
    params: &[Param::required(
        "x",
        Kind::Tensor(Elements::Same("T", Class::Any)),
    )],
    random: false,
    lower: crate::build::MISSING,
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    let x = call.tensor("x");
    let [n] = dims(call, "x")?;
    let values = x.with_dims(vec![Dim::at_most(n.size.clone(), call.count())]);
    Ok(vec![values, x.with_dtype(DType::I32)])
}
