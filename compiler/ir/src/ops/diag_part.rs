//! `tf.linalg.tensor_diag_part`: the diagonal of a tensor.

use crate::build::{Lower, Lowering, Value};
use crate::ops::op::{Call, Elements, Kind, Op, Param, RuleError, RuleErrorKind};
use crate::ops::rules::{dimensions, same_dim};
use crate::types::{Class, TensorType};

/// x at (i, i) for all multi-indices i.
pub(super) static OP: Op = Op {
    name: "diag_part",
    aliases: &[],
    doc: "The diagonal of a tensor whose dimensions are those of its first half twice.",
    params: &[Param::required(
        "x",
        Kind::Tensor(Elements::Same("T", Class::Any)),
    )],
    random: false,
    lower: Lower::By(lower),
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    let x = call.tensor("x");
    if x.rank() == 0 || !x.rank().is_multiple_of(2) {
        return Err(RuleError::new(
            RuleErrorKind::RankMismatch,
            format!(
                "`x` must have an even number of dimensions, but has {}",
                dimensions(x.rank())
            ),
        )
        .at("x"));
    }
    let (rows, columns) = x.shape.0.split_at(x.rank() / 2);
    for (i, (p, q)) in rows.iter().zip(columns).enumerate() {
        let what = format!("dimensions {i} and {} of `x`", i + rows.len());
        same_dim(what, p, q)?;
    }
    Ok(vec![x.with_dims(rows.to_vec())])
}

/// Every (n + 1)-th of all n · n elements.
fn lower<'g>(l: &Lowering<'g, '_>) -> Result<Vec<Value<'g>>, RuleError> {
    let shape = l.shape(0);
    let n: usize = shape.iter().product();
    let all = l.value("x").reshape(&[n * n]);
    Ok(vec![all.slice(&[0], &[n], &[n + 1]).reshape(&shape)])
}
