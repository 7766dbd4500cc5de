//! Tensors one after the other.

use crate::ops::op::{Call, Elements, Fault, Kind, Op, Param, RuleError};
use crate::ops::rules::{axis, dimensions, exact_dim, fits, same_dim};
use crate::types::{Class, Dim, TensorType};

/// The `values` in a row along `axis`.
pub(super) static OP: Op = Op {
    name: "concat",
    aliases: &[],
    doc: "A list of tensors put one after the other along an axis.",
    params: &[
        Param::required("values", Kind::Tensors(Elements::Same("T", Class::Any))),
        Param::required("axis", Kind::Int),
    ],
    random: false,
    lower: crate::build::MISSING,
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    let values = call.tensors("values");
    let first = &values[0];
    let along = axis("axis", call.int("axis")?, first.rank())?;
    let mut total = exact_dim("values", &first.shape.0[along])?.clone();
    for (i, other) in values.iter().enumerate().skip(1) {
        if other.rank() != first.rank() {
            return Err(RuleError::new(
                Fault::RankMismatch,
                format!(
                    "tensors 0 and {i} differ: {} and {}",
                    dimensions(first.rank()),
                    dimensions(other.rank())
                ),
            )
            .at("values"));
        }
        for (j, (p, q)) in first.shape.0.iter().zip(&other.shape.0).enumerate() {
            if j != along {
                same_dim(format!("dimensions {j} of tensors 0 and {i}"), p, q)?;
            }
        }
        let size = exact_dim("values", &other.shape.0[along])?;
        total = total.add(size).ok_or_else(RuleError::overflow)?;
    }
    let mut shape = first.shape.clone();
    shape.0[along] = Dim::exact(total);
    fits(TensorType::new(first.dtype, shape))
}
