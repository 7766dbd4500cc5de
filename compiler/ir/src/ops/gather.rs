//! `tf.gather`: slices at indices along one axis, with batch dimensions.

use crate::build::{Lower, Lowering, Value};
use crate::ops::op::{Call, Default, Elements, Kind, Op, Param, RuleError, RuleErrorKind};
use crate::ops::rules::positions::{bounds_checked, fill_invalid};
use crate::ops::rules::{axis, fits, insertion_axis, min_rank, same_dim};
use crate::types::{Class, DType, TensorType};

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
    lower: Lower::By(lower),
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    min_rank(call, "params", 1)?;
    let (params, indices) = (call.tensor("params"), call.tensor("indices"));
    let (batch, along) = batch_and_axis(call)?;
    if batch > along {
        return Err(RuleError::new(
            RuleErrorKind::BadValue,
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

/// How many batch dimensions there are, and the axis.
fn batch_and_axis(call: &Call<'_>) -> Result<(usize, usize), RuleError> {
    let (params, indices) = (call.tensor("params"), call.tensor("indices"));
    let batch = insertion_axis("batch_dims", call.int("batch_dims")?, indices.rank())?;
    // As in TensorFlow the first dimension that is not a batch dimension, unless said otherwise.
    let along = call.int_opt("axis")?.unwrap_or(batch as i64);
    Ok((batch, axis("axis", along, params.rank())?))
}

/// A row gather of `params`, with the axis moved after the batch dimensions and merged with them.
fn lower<'g>(l: &Lowering<'g, '_>) -> Result<Vec<Value<'g>>, RuleError> {
    let (params, indices) = (l.value("params"), l.value("indices"));
    let (batch, along) = batch_and_axis(l.call)?;
    let dims = &l.call.tensor("indices").shape.0;
    let of = &l.call.tensor("params").shape.0[along];
    let positions = match batch {
        // A plain row gather, so that the gradient stays sparse (IndexedSlices).
        0 if of.count.is_none() => fill_invalid(l, indices, dims),
        0 => bounds_checked(l, indices, dims, of),
        _ => offset(
            bounds_checked(l, indices, dims, of),
            batch,
            params.shape()[along],
        ),
    };
    let moved = params.move_axis(along, batch);
    let shape = moved.shape();
    let rows: usize = shape[..=batch].iter().product();
    let gathered = moved
        .reshape(&[&[rows], &shape[batch + 1..]].concat())
        .take_rows(positions);
    // Now there are the dimensions of `indices`, then those of `params` before the axis that are no batch dimensions,
    // then those after it.
    let (rank, between) = (indices.rank(), along - batch);
    let mut order: Vec<usize> = (0..batch).collect();
    order.extend(rank..rank + between);
    order.extend(batch..rank);
    order.extend(rank + between..gathered.rank());
    let result = gathered.transpose(&order);
    // Slices past a count were read from some row, which must get no gradient from them.
    let read: Vec<usize> = (along..along + rank - batch).collect();
    Ok(vec![l.mask(result, &l.results[0].shape.0, &read, 0.0)])
}

/// Row indices into the batches merged: each batch's are offset by `size` from those of the batch before.
pub(super) fn offset(positions: Value<'_>, batch: usize, size: usize) -> Value<'_> {
    let shape = positions.shape();
    let batches: usize = shape[..batch].iter().product();
    let mut apart = shape.clone();
    apart[batch..].fill(1);
    let b = positions.builder();
    let first = b.iota(batches) * b.int(DType::I64, size as i64);
    first.reshape(&apart) + positions
}
