//! `tf.scatter_nd`: updates scatter-added into zeros.

use crate::build::{Lower, Lowering, Value};
use crate::graph::Type;
use crate::ops::op::{Call, Elements, Kind, Op, Param, RuleError};
use crate::ops::rules::positions::scatter_nd;
use crate::ops::rules::{exact_sizes, fits, scattered};
use crate::types::{Class, TensorType};

/// Zeros of `shape`, with `updates` added at `indices`.
pub(super) static OP: Op = Op {
    name: "scatter_nd",
    aliases: &[],
    doc: "Zeros, with each of `updates` added at its position in `indices`; updates of one position add up.",
    params: &[
        Param::required("indices", Kind::Tensor(Elements::Of(Class::Int))),
        Param::required("updates", Kind::Tensor(Elements::Same("T", Class::Number))),
        Param::required("shape", Kind::Ints),
    ],
    random: false,
    lower: Lower::By(lower),
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    let updates = call.tensor("updates");
    let shape = exact_sizes("shape", call.sizes("shape"))?;
    scattered(call.tensor("indices"), updates, &shape.0)?;
    fits(TensorType::new(updates.dtype, shape))
}

fn lower<'g>(l: &Lowering<'g, '_>) -> Result<Vec<Value<'g>>, RuleError> {
    let ty = Type::new(l.results[0].dtype, &l.shape(0));
    let zeros = l.b.full(&ty, 0.0);
    Ok(vec![scatter_nd(l, zeros, Value::scatter_add)])
}
