//! Tensors of positions, as `gather_nd` and `scatter_nd` take them.

use crate::ops::op::{RuleError, RuleErrorKind};
use crate::ops::rules::checks::{dimensions, exact_dim, same_dim};
use crate::types::{Dim, TensorType};

/// How many dimensions of `rank` a position in `indices` fixes: the last dimension of `indices` says it.
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

/// `updates` must hold for each position in `indices` one piece of a tensor of the dimensions `target`.
pub(in crate::ops) fn scattered(
    indices: &TensorType,
    updates: &TensorType,
    target: &[Dim],
) -> Result<(), RuleError> {
    let depth = index_depth(indices, target.len())?;
    let batch = &indices.shape.0[..indices.rank() - 1];
    let wanted = [batch, &target[depth..]].concat();
    if updates.rank() != wanted.len() {
        return Err(RuleError::new(
            RuleErrorKind::RankMismatch,
            format!(
                "`updates` must have {}, but has {}",
                dimensions(wanted.len()),
                dimensions(updates.rank())
            ),
        )
        .at("updates")
        .help(
            "its shape is that of `indices` without the last dimension, then that of one piece",
        ));
    }
    for (i, (p, q)) in wanted.iter().zip(&updates.shape.0).enumerate() {
        same_dim(
            format!("dimensions {i} of what is to be written and `updates`"),
            p,
            q,
        )?;
    }
    Ok(())
}
