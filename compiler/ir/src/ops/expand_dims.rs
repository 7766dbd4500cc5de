//! `tf.expand_dims`: a dimension of 1 inserted at an axis.

use crate::build::Lower;
use crate::ops::op::{Call, Elements, Kind, Op, Param, RuleError};
use crate::ops::rules::insertion_axis;
use crate::types::{Class, Dim, TensorType};

/// x with a dimension of 1 at `axis`.
pub(super) static OP: Op = Op {
    name: "expand_dims",
    aliases: &[],
    doc: "A tensor with a dimension of 1 put in at an axis.",
    params: &[
        Param::required("x", Kind::Tensor(Elements::Same("T", Class::Any))),
        Param::required("axis", Kind::Int),
    ],
    random: false,
    lower: Lower::By(|l| Ok(vec![l.value("x").reshape(&l.shape(0))])),
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    let x = call.tensor("x");
    let at = insertion_axis("axis", call.int("axis")?, x.rank())?;
    let mut shape = x.shape.clone();
    shape.0.insert(at, Dim::fixed(1));
    Ok(vec![TensorType::new(x.dtype, shape)])
}
