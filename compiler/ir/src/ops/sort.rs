//! Elements in order.

use crate::ops::op::{Call, Op, RuleError};
use crate::ops::rules::{SORT, sort};
use crate::types::TensorType;

/// x in order along `axis`.
pub(super) static OP: Op = Op {
    name: "sort",
    aliases: &[],
    doc: "The elements in order along an axis.",
    params: SORT,
    random: false,
    lower: crate::build::MISSING,
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    Ok(vec![TensorType::new(call.tensor("x").dtype, sort(call)?)])
}
