//! The dimensions in another order.

use crate::ops::op::{Call, Elements, Kind, Op, Param, RuleError};
use crate::ops::rules::{axes, length};
use crate::types::{Class, TensorType};

/// Dimension i of the result is dimension `perm`[i] of x.
pub(super) static OP: Op = Op {
    name: "transpose",
    aliases: &[],
    doc: "The dimensions in the order of `perm`, or from last to first.",
    params: &[
        Param::required("x", Kind::Tensor(Elements::Same("T", Class::Any))),
        Param::optional("perm", Kind::Ints),
    ],
    random: false,
    lower: crate::build::MISSING,
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    let x = call.tensor("x");
    let order = match call.ints_opt("perm")? {
        Some(perm) => {
            length("perm", perm.len(), x.rank(), "dimension of `x`")?;
            axes("perm", &perm, x.rank())?
        }
        None => (0..x.rank()).rev().collect(),
    };
    let dims = order.into_iter().map(|i| x.shape.0[i].clone()).collect();
    Ok(vec![x.with_dims(dims)])
}
