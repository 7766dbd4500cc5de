//! `tf.dynamic_partition`: rows partitioned into several tensors by partition index.

use crate::build::{Lower, Lowering, Value};
use crate::ops::op::{Call, Elements, Kind, Op, Param, RuleError, RuleErrorKind};
use crate::ops::rules::positions::gather_prefix;
use crate::ops::rules::{MAX_OUTPUT_TENSORS, prefix};
use crate::types::{Class, DType, Dim, TensorType};

/// For each i the rows of `data` where `partitions` is i.
pub(super) static OP: Op = Op {
    name: "dynamic_partition",
    aliases: &[],
    doc: "The slices of `data` partitioned into `num_partitions` tensors by the indices `partitions`.",
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
    let max_rows = partitions
        .shape
        .elements()
        .ok_or_else(RuleError::overflow)?;
    let partition_count = call.int("num_partitions")?;
    if !(1..=MAX_OUTPUT_TENSORS).contains(&partition_count) {
        return Err(RuleError::new(
            RuleErrorKind::BadValue,
            format!(
                "`num_partitions` must be from 1 to {MAX_OUTPUT_TENSORS}, but is {partition_count}"
            ),
        )
        .at("num_partitions"));
    }
    let partition = |i| {
        let rows = Dim::at_most(max_rows.clone(), call.count_of(i));
        data.with_dims([&[rows], rest].concat())
    };
    Ok((0..partition_count as usize).map(partition).collect())
}

fn lower<'g>(l: &Lowering<'g, '_>) -> Result<Vec<Value<'g>>, RuleError> {
    let (data, partitions) = (l.value("data"), l.call.tensor("partitions"));
    let axes: Vec<usize> = (0..partitions.rank()).collect();
    let ids = l.masked("partitions", &axes, 0.0).cast(DType::I64);
    let ids = ids.bounded(0, l.call.int("num_partitions")?, "partitions");
    // Rows past a count are in no partition.
    let ids = l.mask(ids, &partitions.shape.0, &axes, -1.0);
    let max_rows = ids.ty().elements();
    let ids = ids.reshape(&[max_rows]);
    let rows = data.reshape(&[&[max_rows], &data.shape()[axes.len()..]].concat());
    let partition = |i: usize| {
        let [positions, count] = ids.equal(l.b.int(DType::I64, i as i64)).compact();
        l.define_count(&l.call.count_of(i), count);
        gather_prefix(rows, 0, positions, count)
    };
    Ok((0..l.results.len()).map(partition).collect())
}
