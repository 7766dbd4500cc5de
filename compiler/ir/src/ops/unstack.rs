//! `tf.unstack`: the slices along an axis as separate tensors.

use crate::build::{Lower, Lowering, Value};
use crate::ops::op::{Call, Default, Elements, Kind, Op, Param, RuleError, RuleErrorKind};
use crate::ops::rules::{MAX_OUTPUT_TENSORS, axis, exact_dim};
use crate::types::{Class, TensorType};

/// `value` at 0, 1, … along `axis`.
pub(super) static OP: Op = Op {
    name: "unstack",
    aliases: &[],
    doc: "The slices of a tensor along an axis, each a tensor of its own.",
    params: &[
        Param::required("value", Kind::Tensor(Elements::Same("T", Class::Any))),
        Param::with("axis", Kind::Int, Default::Int(0)),
    ],
    random: false,
    lower: Lower::By(lower),
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    let value = call.tensor("value");
    let along = axis("axis", call.int("axis")?, value.rank())?;
    let size = exact_dim("value", &value.shape.0[along])?;
    let Some(slices) = size.value() else {
        return Err(RuleError::unknown_size("value", size));
    };
    if slices > MAX_OUTPUT_TENSORS {
        return Err(RuleError::new(
            RuleErrorKind::BadValue,
            format!("{slices} tensors would come out, more than {MAX_OUTPUT_TENSORS}"),
        )
        .at("value"));
    }
    let mut slice = value.clone();
    slice.shape.0.remove(along);
    Ok(vec![slice; slices as usize])
}

fn lower<'g>(l: &Lowering<'g, '_>) -> Result<Vec<Value<'g>>, RuleError> {
    let value = l.value("value");
    let along = axis("axis", l.call.int("axis")?, value.rank())?;
    let slice = |i: usize| value.narrow(along, i, 1).reshape(&l.shape(i));
    Ok((0..l.results.len()).map(slice).collect())
}
