//! `tf.fill`: a tensor with one value everywhere.

use crate::build::Lower;
use crate::ops::op::{Call, Elements, Kind, Op, Param, RuleError};
use crate::ops::rules::{exact_rank, exact_sizes, fits};
use crate::types::{Class, TensorType};

/// A tensor of `dims` whose elements are all `value`.
pub(super) static OP: Op = Op {
    name: "fill",
    aliases: &[],
    doc: "A tensor of the given shape with one value everywhere.",
    params: &[
        Param::required("dims", Kind::Ints),
        Param::required("value", Kind::Tensor(Elements::Same("T", Class::Any))),
    ],
    random: false,
    lower: Lower::By(|l| Ok(vec![l.value("value").broadcast(&l.shape(0))])),
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    exact_rank(call, "value", 0)?;
    let shape = exact_sizes("dims", call.sizes("dims"))?;
    fits(TensorType::new(call.tensor("value").dtype, shape))
}
