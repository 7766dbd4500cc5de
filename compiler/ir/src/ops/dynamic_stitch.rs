//! `tf.dynamic_stitch`: rows of several tensors interleaved by index, the inverse of `tf.dynamic_partition`.

use crate::build::{Lower, Lowering, Value};
use crate::graph::Type;
use crate::ops::op::{Call, Elements, Kind, Op, Param, RuleError, RuleErrorKind};
use crate::ops::rules::positions::{bounds_checked, scatter, validity_mask};
use crate::ops::rules::{at_least, fits, length, prefix};
use crate::size::Size;
use crate::types::{Class, DType, Dim, Shape, TensorType};

/// Row `indices`[i][j] of the result is `data`[i][j]; of equal indices the last wins.
///
/// Without `size` the capacity is the number of indices, so each index must be below it.
pub(super) static OP: Op = Op {
    name: "dynamic_stitch",
    aliases: &[],
    doc: "The slices of several tensors put together, each at the row that its index names; of equal rows the last wins.",
    params: &[
        Param::required("indices", Kind::Tensors(Elements::Of(Class::Int))),
        Param::required("data", Kind::Tensors(Elements::Same("T", Class::Any))),
        Param::optional("size", Kind::Int),
    ],
    random: false,
    lower: Lower::By(lower),
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    let (indices, data) = (call.tensors("indices"), call.tensors("data"));
    length("data", data.len(), indices.len(), "of `indices`")?;
    let mut row: Option<&[Dim]> = None;
    let mut capacity = Size::fixed(0);
    for (i, (indices, data)) in indices.iter().zip(data).enumerate() {
        let rest = prefix(("indices", indices), ("data", data))?;
        match row {
            Some(row) if row != rest => {
                let [p, q] = [row, rest].map(|r| Shape(r.to_vec()));
                return Err(RuleError::new(
                    RuleErrorKind::ShapeMismatch,
                    format!("the rows of tensors 0 and {i} of `data` differ in shape: {p} and {q}"),
                )
                .at("data"));
            }
            _ => row = Some(rest),
        }
        let size = indices.shape.elements().ok_or_else(RuleError::overflow)?;
        capacity = capacity.add(&size).ok_or_else(RuleError::overflow)?;
    }
    let rows = match call.size_opt("size") {
        Some(n) => {
            at_least("size", 0, n)?;
            Dim::exact(n.clone())
        }
        None => Dim::at_most(capacity, call.count()),
    };
    fits(data[0].with_dims([&[rows], row.unwrap_or_default()].concat()))
}

/// A row scatter-update into zeros, in the order of the list.
fn lower<'g>(l: &Lowering<'g, '_>) -> Result<Vec<Value<'g>>, RuleError> {
    let shape = l.shape(0);
    let of = Dim::fixed(shape[0] as i64);
    let counted = l
        .call
        .tensors("indices")
        .iter()
        .any(|t| t.shape.is_counted());
    let (mut positions, mut masks, mut rows) = (Vec::new(), Vec::new(), Vec::new());
    for (i, indices) in l.values("indices").iter().enumerate() {
        let dims = &l.call.tensors("indices")[i].shape.0;
        let n = indices.ty().elements();
        positions.push(bounds_checked(l, *indices, dims, &of).reshape(&[n]));
        if counted {
            let all = Type::new(DType::Bool, &indices.shape());
            let valid = validity_mask(l, dims).unwrap_or_else(|| l.b.full(&all, 1.0));
            masks.push(valid.reshape(&[n]));
        }
        rows.push(l.values("data")[i].reshape(&[&[n], &shape[1..]].concat()));
    }
    let positions = l.b.concat(&positions, 0);
    let valid = counted.then(|| l.b.concat(&masks, 0));
    if l.call.size_opt("size").is_none() {
        // One more than the largest index.
        let count = match (valid, positions.shape()[0]) {
            (_, 0) => l.b.int(DType::I64, 0),
            (None, _) => positions.max(&[0]) + 1.0,
            (Some(valid), _) => valid.select(positions, positions.like(-1.0)).max(&[0]) + 1.0,
        };
        l.define_count(&l.call.count(), count);
    }
    let zeros = l.b.full(&Type::new(l.results[0].dtype, &shape), 0.0);
    let rows = l.b.concat(&rows, 0);
    let stitched = scatter(zeros, (positions, valid), rows, Value::scatter_set);
    Ok(vec![stitched])
}
