//! `tf.stack`: tensors of one shape stacked along a new axis.

use crate::build::{Lower, Lowering, Value};
use crate::ops::op::{Call, Default, Elements, Kind, Op, Param, RuleError, RuleErrorKind};
use crate::ops::rules::{fits, insertion_axis};
use crate::types::{Class, Dim, TensorType};

/// The `values` side by side along a new `axis`.
pub(super) static OP: Op = Op {
    name: "stack",
    aliases: &[],
    doc: "A list of tensors of one shape put side by side along a new axis.",
    params: &[
        Param::required("values", Kind::Tensors(Elements::Same("T", Class::Any))),
        Param::with("axis", Kind::Int, Default::Int(0)),
    ],
    random: false,
    lower: Lower::By(lower),
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    let values = call.tensors("values");
    let first = &values[0];
    let at = insertion_axis("axis", call.int("axis")?, first.rank())?;
    for (i, other) in values.iter().enumerate().skip(1) {
        if other.shape != first.shape {
            return Err(RuleError::new(
                RuleErrorKind::ShapeMismatch,
                format!(
                    "tensors 0 and {i} differ in shape: {} and {}",
                    first.shape, other.shape
                ),
            )
            .at("values"));
        }
    }
    let mut shape = first.shape.clone();
    shape.0.insert(at, Dim::fixed(values.len() as i64));
    fits(TensorType::new(first.dtype, shape))
}

fn lower<'g>(l: &Lowering<'g, '_>) -> Result<Vec<Value<'g>>, RuleError> {
    let values = l.values("values");
    let at = insertion_axis("axis", l.call.int("axis")?, values[0].rank())?;
    Ok(vec![l.b.stack(values, at)])
}
