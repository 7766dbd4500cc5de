//! `tf.gather_nd`: elements or slices at multi-dimensional indices.

use crate::build::{Lower, Lowering, Value};
use crate::ops::gather::offset;
use crate::ops::op::{Call, Default, Elements, Kind, Op, Param, RuleError, RuleErrorKind};
use crate::ops::rules::positions::linearized;
use crate::ops::rules::{fits, index_depth, min_rank, same_dim};
use crate::types::{Class, TensorType};

/// `params` at each position in `indices`.
pub(super) static OP: Op = Op {
    name: "gather_nd",
    aliases: &[],
    doc: "The elements or slices of `params` at the positions in the last dimension of `indices`; the first `batch_dims` dimensions of both go together.",
    params: &[
        Param::required("params", Kind::Tensor(Elements::Same("T", Class::Any))),
        Param::required("indices", Kind::Tensor(Elements::Of(Class::Int))),
        Param::with("batch_dims", Kind::Int, Default::Int(0)),
    ],
    random: false,
    lower: Lower::By(lower),
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    min_rank(call, "indices", 1)?;
    let (params, indices) = (call.tensor("params"), call.tensor("indices"));
    let last = indices.rank() - 1;
    let batch = match usize::try_from(call.int("batch_dims")?) {
        Ok(n) if n <= last && n <= params.rank() => n,
        _ => {
            return Err(RuleError::new(
                RuleErrorKind::BadValue,
                format!(
                    "`batch_dims` must be from 0 to {}, but is {}",
                    last.min(params.rank()),
                    call.size("batch_dims")
                ),
            )
            .at("batch_dims"));
        }
    };
    for i in 0..batch {
        let what = format!("batch dimensions {i} of `params` and `indices`");
        same_dim(what, &params.shape.0[i], &indices.shape.0[i])?;
    }
    let depth = index_depth(indices, params.rank() - batch)?;
    let piece = &params.shape.0[batch + depth..];
    fits(params.with_dims([&indices.shape.0[..last], piece].concat()))
}

fn lower<'g>(l: &Lowering<'g, '_>) -> Result<Vec<Value<'g>>, RuleError> {
    let (params, indices) = (l.value("params"), l.value("indices"));
    let batch = l.call.int("batch_dims")? as usize;
    let dims = &l.call.tensor("indices").shape.0;
    let last = dims.len() - 1;
    let piece = batch + indices.shape()[last];
    let of = &l.call.tensor("params").shape.0[batch..piece];
    let shape = params.shape();
    let each: usize = shape[batch..piece].iter().product();
    let positions = match batch {
        0 => linearized(l, indices, dims, of),
        _ => offset(linearized(l, indices, dims, of), batch, each),
    };
    let rows: usize = shape[..piece].iter().product();
    let gathered = params
        .reshape(&[&[rows], &shape[piece..]].concat())
        .take(positions);
    let read: Vec<usize> = (batch..last).collect();
    Ok(vec![l.mask(gathered, &l.results[0].shape.0, &read, 0.0)])
}
