//! `tf.reverse_sequence`: a prefix of each sequence of a batch in reverse order.

use crate::build::{Lower, Lowering, Value};
use crate::ops::gather::offset;
use crate::ops::op::{Call, Default, Elements, Kind, Op, Param, RuleError, RuleErrorKind};
use crate::ops::rules::{axis, exact_rank, same_dim};
use crate::ops::transpose::inverse;
use crate::types::{Class, DType, TensorType};

/// Of each sequence the first `seq_lengths` elements reversed, the suffix unchanged.
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
    lower: Lower::By(lower),
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    exact_rank(call, "seq_lengths", 1)?;
    let (input, lengths) = (call.tensor("input"), call.tensor("seq_lengths"));
    let along = axis("seq_axis", call.int("seq_axis")?, input.rank())?;
    let batch = axis("batch_axis", call.int("batch_axis")?, input.rank())?;
    if along == batch {
        return Err(RuleError::new(
            RuleErrorKind::BadValue,
            format!("`seq_axis` and `batch_axis` are both axis {batch}"),
        )
        .at("seq_axis"));
    }
    let what = format!("dimension {batch} of `input` and the number of `seq_lengths`");
    same_dim(what, &input.shape.0[batch], &lengths.shape.0[0])?;
    Ok(vec![input.clone()])
}

/// A row gather at the source index of each element.
fn lower<'g>(l: &Lowering<'g, '_>) -> Result<Vec<Value<'g>>, RuleError> {
    let input = l.value("input");
    let along = axis("seq_axis", l.call.int("seq_axis")?, input.rank())?;
    let batch = axis("batch_axis", l.call.int("batch_axis")?, input.rank())?;
    let mut order = vec![batch, along];
    order.extend((0..input.rank()).filter(|i| ![batch, along].contains(i)));
    let sequences = input.transpose(&order);
    let shape = sequences.shape();
    let (batches, max_length) = (shape[0], shape[1]);
    let lengths = l.masked("seq_lengths", &[0], 0.0).cast(DType::I64);
    let mut lengths = lengths.bounded(0, max_length as i64 + 1, "seq_lengths");
    if let Some(count) = l.count(&l.call.tensor("input").shape.0[along]) {
        let spare = (lengths - count).bounded(-(max_length as i64), 1, "seq_lengths - count");
        lengths = spare + count;
    }
    let lengths = lengths.reshape(&[batches, 1]);
    let index = l.b.iota(max_length).reshape(&[1, max_length]);
    let from = index.less(lengths).select(lengths - 1.0 - index, index);
    let rows = sequences.reshape(&[&[batches * max_length], &shape[2..]].concat());
    let reversed = rows.take(offset(from, 1, max_length));
    Ok(vec![reversed.transpose(&inverse(&order))])
}
