//! Slices at positions along one axis.

use crate::ops::op::{Call, Default, Elements, Fault, Kind, Op, Param, RuleError};
use crate::ops::rules::{axis, fits, least_rank, place, same_dim};
use crate::types::{Class, TensorType};

/// `params` at each of `indices` along `axis`.
///
/// Left out, `axis` is `batch_dims`.
pub(super) static OP: Op = Op {
    name: "gather",
    aliases: &[],
    doc: "The slices of `params` at the positions `indices` along an axis; the first `batch_dims` dimensions of both go together.",
    params: &[
        Param::required("params", Kind::Tensor(Elements::Same("T", Class::Any))),
        Param::required("indices", Kind::Tensor(Elements::Of(Class::Int))),
        Param::optional("axis", Kind::Int),
        Param::with("batch_dims", Kind::Int, Default::Int(0)),
    ],
    random: false,
    lower: crate::build::MISSING,
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    least_rank(call, "params", 1)?;
    let (params, indices) = (call.tensor("params"), call.tensor("indices"));
    let batch = place("batch_dims", call.int("batch_dims")?, indices.rank())?;
    // As in TensorFlow the first dimension that is not a batch dimension, unless said otherwise.
    let along = axis(
        "axis",
        call.int_opt("axis")?.unwrap_or(batch as i64),
        params.rank(),
    )?;
    if batch > along {
        return Err(RuleError::new(
            Fault::BadValue,
            format!("axis {along} is one of the {batch} batch dimensions"),
        )
        .at("axis"));
    }
    for i in 0..batch {
        let what = format!("batch dimensions {i} of `params` and `indices`");
        same_dim(what, &params.shape.0[i], &indices.shape.0[i])?;
    }
    let (before, after) = (&params.shape.0[..along], &params.shape.0[along + 1..]);
    fits(params.with_dims([before, &indices.shape.0[batch..], after].concat()))
}
