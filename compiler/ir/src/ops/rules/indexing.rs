//! Multi-dimensional indices, as `tf.gather_nd` and `tf.scatter_nd` take them: shape checks.

use crate::ops::op::{Call, RuleError, RuleErrorKind};
use crate::ops::rules::checks::{dimensions, exact_dim, same_dim};
use crate::types::{Dim, TensorType};

/// The index depth: the number of dimensions of `rank` that each index fixes, which is the last dimension of `indices`.
pub(in crate::ops) fn index_depth(indices: &TensorType, rank: usize) -> Result<usize, RuleError> {
    let Some(last) = indices.shape.0.last() else {
        return Err(RuleError::new(
            RuleErrorKind::RankMismatch,
            "`indices` must have at least 1 dimension, but has no dimensions",
        )
        .at("indices"));
    };
    let size = exact_dim("indices", last)?;
    let Some(depth) = size.value() else {
        return Err(RuleError::unknown_size("indices", size));
    };
    match usize::try_from(depth) {
        Ok(depth) if depth <= rank => Ok(depth),
        _ => Err(RuleError::new(
            RuleErrorKind::ShapeMismatch,
            format!(
                "each position in `indices` has {depth} numbers, but there are {} to index",
                dimensions(rank)
            ),
        )
        .at("indices")),
    }
}

/// `updates` must hold for each index in `indices` one slice of a tensor of the dimensions `target`.
pub(in crate::ops) fn scattered(
    indices: &TensorType,
    updates: &TensorType,
    target: &[Dim],
) -> Result<(), RuleError> {
    let depth = index_depth(indices, target.len())?;
    let batch = &indices.shape.0[..indices.rank() - 1];
    let expected = [batch, &target[depth..]].concat();
    if updates.rank() != expected.len() {
        return Err(RuleError::new(
            RuleErrorKind::RankMismatch,
            format!(
                "`updates` must have {}, but has {}",
                dimensions(expected.len()),
                dimensions(updates.rank())
            ),
        )
        .at("updates")
        .help(
            "its shape is that of `indices` without the last dimension, then that of one piece",
        ));
    }
    for (i, (p, q)) in expected.iter().zip(&updates.shape.0).enumerate() {
        same_dim(
            format!("dimensions {i} of what is to be written and `updates`"),
            p,
            q,
        )?;
    }
    Ok(())
}

/// Type inference of `tensor` with `updates` at `indices`.
pub(in crate::ops) fn scattered_into_tensor(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    let tensor = call.tensor("tensor");
    scattered(
        call.tensor("indices"),
        call.tensor("updates"),
        &tensor.shape.0,
    )?;
    Ok(vec![tensor.clone()])
}
