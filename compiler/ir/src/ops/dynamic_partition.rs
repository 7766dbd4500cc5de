//! Rows dealt out by number.

use crate::build::{Lower, Lowering, Value};
use crate::ops::op::{Call, Elements, Kind, Op, Param, RuleError, RuleErrorKind};
use crate::ops::rules::positions::kept;
use crate::ops::rules::{MAX_PARTS, prefix};
use crate::types::{Class, DType, Dim, TensorType};

/// For each i the rows of `data` where `partitions` is i.
pub(super) static OP: Op = Op {
    name: "dynamic_partition",
    aliases: &[],
    doc: "The slices of `data` dealt out into `num_partitions` tensors, as `partitions` says.",
    params: &[
        Param::required("data", Kind::Tensor(Elements::Same("T", Class::Any))),
        Param::counting("partitions", Kind::Tensor(Elements::Of(Class::Int))),
        Param::required("num_partitions", Kind::Int),
    ],
    random: false,
    lower: Lower::By(lower),
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    let (data, partitions) = (call.tensor("data"), call.tensor("partitions"));
    let rest = prefix(("partitions", partitions), ("data", data))?;
    let most = partitions
        .shape
        .elements()
        .ok_or_else(RuleError::overflow)?;
    let parts = call.int("num_partitions")?;
    if !(1..=MAX_PARTS).contains(&parts) {
        return Err(RuleError::new(
            RuleErrorKind::BadValue,
            format!("`num_partitions` must be from 1 to {MAX_PARTS}, but is {parts}"),
        )
        .at("num_partitions"));
    }
    let part = |i| {
        let rows = Dim::at_most(most.clone(), call.count_of(i));
        data.with_dims([&[rows], rest].concat())
    };
    Ok((0..parts as usize).map(part).collect())
}

fn lower<'g>(l: &Lowering<'g, '_>) -> Result<Vec<Value<'g>>, RuleError> {
    let (data, partitions) = (l.value("data"), l.call.tensor("partitions"));
    let axes: Vec<usize> = (0..partitions.rank()).collect();
    let numbers = l.masked("partitions", &axes, 0.0).cast(DType::I64);
    let numbers = numbers.bounded(0, l.call.int("num_partitions")?, "partitions");
    // What is behind a count is in no part.
    let numbers = l.mask(numbers, &partitions.shape.0, &axes, -1.0);
    let most = numbers.ty().elements();
    let numbers = numbers.reshape(&[most]);
    let rows = data.reshape(&[&[most], &data.shape()[axes.len()..]].concat());
    let part = |i: usize| {
        let [positions, count] = numbers.equal(l.b.int(DType::I64, i as i64)).compact();
        l.define_count(&l.call.count_of(i), count);
        kept(rows, 0, positions, count)
    };
    Ok((0..l.results.len()).map(part).collect())
}
