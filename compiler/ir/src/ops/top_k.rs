//! `tf.math.top_k`: the k largest elements along the last axis, and their indices.

use crate::build::Lower;
use crate::ops::op::{Call, Default, Elements, Kind, Op, Param, RuleError, RuleErrorKind};
use crate::ops::rules::order::take_along_axis;
use crate::ops::rules::{at_least, exact_dim, fits, known_negative, min_rank};
use crate::types::{Class, DType, Dim, TensorType};

/// The `k` largest elements of each row, and their indices; of ties the first.
pub(super) static OP: Op = Op {
    name: "top_k",
    aliases: &[],
    doc: "The `k` greatest elements along the last axis and their positions; of equal ones the first comes first.",
    params: &[
        Param::required("input", Kind::Tensor(Elements::Same("T", Class::Number))),
        Param::with("k", Kind::Int, Default::Int(1)),
        Param::with("sorted", Kind::Bool, Default::Bool(true)),
    ],
    random: false,
    lower: Lower::By(|l| {
        let input = l.value("input");
        let last = input.rank() - 1;
        let k = l.shape(0)[last];
        let positions = input.argsort(last, true).narrow(last, 0, k);
        let values = take_along_axis(input, positions, last);
        Ok(vec![values, positions.cast(DType::I32)])
    }),
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    min_rank(call, "input", 1)?;
    let input = call.tensor("input");
    let last = input.rank() - 1;
    let have = exact_dim("input", &input.shape.0[last])?;
    let k = call.size("k");
    at_least("k", 0, k)?;
    let spare = have.sub(k).ok_or_else(RuleError::overflow)?;
    if known_negative(&spare) {
        return Err(RuleError::new(
            RuleErrorKind::BadValue,
            format!("the last dimension has {have}, fewer than `k`, which is {k}"),
        )
        .at("k"));
    }
    let mut values = input.clone();
    values.shape.0[last] = Dim::exact(k.clone());
    let positions = values.with_dtype(DType::I32);
    Ok([fits(values)?, fits(positions)?].concat())
}
