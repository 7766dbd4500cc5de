//! The positions that bring elements into order.

use crate::ops::op::{Call, Op, RuleError};
use crate::ops::rules::{SORT, sort};
use crate::types::{DType, TensorType};

/// The positions of the elements of x in order along `axis`.
pub(super) static OP: Op = Op {
    name: "argsort",
    aliases: &[],
    doc: "The positions of the elements in their order along an axis; equal ones stay in theirs.",
    params: SORT,
    random: false,
    lower: crate::build::MISSING,
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    Ok(vec![TensorType::new(DType::I32, sort(call)?)])
}
