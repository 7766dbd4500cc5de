//! `tf.sort`: the elements sorted along an axis.

use crate::build::Lower;
use crate::ops::op::{Call, Op, RuleError};
use crate::ops::rules::order::{sort_permutation, take_along_axis};
use crate::ops::rules::{SORT, sort};
use crate::types::TensorType;

/// x sorted along `axis`.
pub(super) static OP: Op = Op {
    name: "sort",
    aliases: &[],
    doc: "The elements in order along an axis.",
    params: SORT,
    random: false,
    lower: Lower::By(|l| {
        let (positions, axis) = sort_permutation(l)?;
        Ok(vec![take_along_axis(l.value("x"), positions, axis)])
    }),
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    Ok(vec![TensorType::new(call.tensor("x").dtype, sort(call)?)])
}
