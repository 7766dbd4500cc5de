//! The elements from last to first.

use crate::ops::op::{Call, Elements, Kind, Op, Param, RuleError};
use crate::ops::rules::{axes, exact_dim};
use crate::types::{Class, TensorType};

/// x from last to first along each of `axis`.
pub(super) static OP: Op = Op {
    name: "reverse",
    aliases: &[],
    doc: "The elements in reverse order along the given axes.",
    params: &[
        Param::required("x", Kind::Tensor(Elements::Same("T", Class::Any))),
        Param::required("axis", Kind::Ints),
    ],
    random: false,
    lower: crate::build::MISSING,
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    let x = call.tensor("x");
    for i in axes("axis", &call.ints("axis")?, x.rank())? {
        exact_dim("x", &x.shape.0[i])?;
    }
    Ok(vec![x.clone()])
}
