//! Choice by a condition.

use crate::ops::op::{Call, Elements, Kind, Op, Param, RuleError};
use crate::ops::rules::broadcast;
use crate::types::{Class, DType, TensorType};

/// x where `condition` is true, else y.
pub(super) static OP: Op = Op {
    name: "where",
    aliases: &[],
    doc: "The elements of `x` where `condition` is true, those of `y` where it is not; all three are broadcast.",
    params: &[
        Param::required("condition", Kind::Tensor(Elements::Only(DType::Bool))),
        Param::required("x", Kind::Tensor(Elements::Same("T", Class::Any))),
        Param::required("y", Kind::Tensor(Elements::Same("T", Class::Any))),
    ],
    random: false,
    lower: crate::build::MISSING,
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    let (x, y) = (call.tensor("x"), call.tensor("y"));
    let both = broadcast(&x.shape, &y.shape)?;
    let shape = broadcast(&call.tensor("condition").shape, &both)?;
    Ok(vec![TensorType::new(x.dtype, shape)])
}
