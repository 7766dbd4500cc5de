//! `tf.boolean_mask`: the slices at which a boolean mask is true (stream compaction).

use crate::build::{Lower, Lowering, Value};
use crate::ops::op::{Call, Default, Elements, Kind, Op, Param, RuleError};
use crate::ops::rules::positions::gather_prefix;
use crate::ops::rules::{axis, fits, min_rank, prefix};
use crate::types::{Class, DType, Dim, TensorType};

/// The slices of `tensor` at which `mask` is true.
pub(super) static OP: Op = Op {
    name: "boolean_mask",
    aliases: &[],
    doc: "The elements or slices at which the mask is true, in their order; the mask covers the dimensions from `axis` on.",
    params: &[
        Param::required("tensor", Kind::Tensor(Elements::Same("T", Class::Any))),
        Param::counting("mask", Kind::Tensor(Elements::Only(DType::Bool))),
        Param::with("axis", Kind::Int, Default::Int(0)),
    ],
    random: false,
    lower: Lower::By(lower),
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    min_rank(call, "tensor", 1)?;
    min_rank(call, "mask", 1)?;
    let (tensor, mask) = (call.tensor("tensor"), call.tensor("mask"));
    let along = axis("axis", call.int("axis")?, tensor.rank())?;
    let (before, rest) = tensor.shape.0.split_at(along);
    let after = prefix(("mask", mask), ("tensor", &tensor.with_dims(rest.to_vec())))?.to_vec();
    let max_rows = mask.shape.elements().ok_or_else(RuleError::overflow)?;
    let kept = Dim::at_most(max_rows, call.count());
    fits(tensor.with_dims([before, &[kept], &after].concat()))
}

fn lower<'g>(l: &Lowering<'g, '_>) -> Result<Vec<Value<'g>>, RuleError> {
    let tensor = l.value("tensor");
    let along = axis("axis", l.call.int("axis")?, tensor.rank())?;
    let covered = l.value("mask").axes();
    let mask = l.masked("mask", &covered, 0.0);
    let max_rows = mask.ty().elements();
    let [positions, count] = mask.reshape(&[max_rows]).compact();
    l.define_count(&l.call.count(), count);
    let mut shape = tensor.shape();
    shape.splice(along..along + covered.len(), [max_rows]);
    Ok(vec![gather_prefix(
        tensor.reshape(&shape),
        along,
        positions,
        count,
    )])
}
