//! Row reductions that fuse into the loop that computes their operand.

use crate::graph::{Attr, Prim, Type};
use crate::kernel::Combine;
use crate::types::DType;

/// Longer rows, in elements, are left to a library call, which divides them among threads.
pub(crate) const MAX_ROW_ELEMENTS: usize = 1 << 14;

/// The combiner of a reduction of floats over the last dimensions, and how many dimensions those are.
pub(super) fn row_reduction(
    prim: &Prim,
    attrs: &[Attr],
    operands: &[&Type],
) -> Option<(Combine, usize)> {
    let all = [Combine::Sum, Combine::Max, Combine::Min, Combine::Prod];
    let combine = all.into_iter().find(|c| c.name() == prim.name)?;
    let ([ty], [Attr::Sizes(axes)]) = (operands, attrs) else {
        return None;
    };
    let reduced_dims = axes.len();
    let kept = ty.rank().checked_sub(reduced_dims)?;
    let trailing = reduced_dims > 0 && axes.iter().copied().eq(kept..ty.rank());
    let length: usize = ty.shape[kept..].iter().product();
    let supported = matches!(ty.dtype, DType::F32 | DType::F64);
    // Deterministic reduction order: the assignment of elements to lanes must not depend on whether the loop merges dimensions.
    let long: Vec<usize> = ty.shape[kept..]
        .iter()
        .copied()
        .filter(|n| *n != 1)
        .collect();
    let even = long.len() <= 1 || long.last().is_some_and(|n| n % 8 == 0);
    (trailing
        && even
        && supported
        && (1..=MAX_ROW_ELEMENTS).contains(&length)
        && !ty.shape.contains(&0))
    .then_some((combine, reduced_dims))
}
