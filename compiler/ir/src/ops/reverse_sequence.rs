//! The start of each sequence from last to first.

use crate::ops::op::{Call, Default, Elements, Fault, Kind, Op, Param, RuleError};
use crate::ops::rules::{axis, exact_rank, same_dim};
use crate::types::{Class, TensorType};

/// Of each sequence the first `seq_lengths` elements reversed, the rest as it is.
pub(super) static OP: Op = Op {
    name: "reverse_sequence",
    aliases: &[],
    doc: "The first `seq_lengths` elements of each sequence in reverse order; sequences run along `seq_axis` and are counted along `batch_axis`.",
    params: &[
        Param::required("input", Kind::Tensor(Elements::Same("T", Class::Any))),
        Param::required("seq_lengths", Kind::Tensor(Elements::Of(Class::Int))),
        Param::required("seq_axis", Kind::Int),
        Param::with("batch_axis", Kind::Int, Default::Int(0)),
    ],
    random: false,
    lower: crate::build::MISSING,
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    exact_rank(call, "seq_lengths", 1)?;
    let (input, lengths) = (call.tensor("input"), call.tensor("seq_lengths"));
    let along = axis("seq_axis", call.int("seq_axis")?, input.rank())?;
    let batch = axis("batch_axis", call.int("batch_axis")?, input.rank())?;
    if along == batch {
        return Err(RuleError::new(
            Fault::BadValue,
            format!("`seq_axis` and `batch_axis` are both axis {batch}"),
        )
        .at("seq_axis"));
    }
    let what = format!("dimension {batch} of `input` and the number of `seq_lengths`");
    same_dim(what, &input.shape.0[batch], &lengths.shape.0[0])?;
    Ok(vec![input.clone()])
}
