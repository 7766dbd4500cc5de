//! Which reductions ride on the loop that makes what they reduce.

use crate::graph::{Attr, Prim, Type};
use crate::kernel::Combine;
use crate::types::DType;

/// Longer rows are left to a routine, which cuts them into pieces for several threads.
pub(crate) const LONGEST_ROW: usize = 1 << 14;

/// How a reduction of floats over the last dimensions combines rows, and how many dimensions that are.
pub(super) fn rows(prim: &Prim, attrs: &[Attr], operands: &[&Type]) -> Option<(Combine, usize)> {
    let all = [Combine::Sum, Combine::Max, Combine::Min, Combine::Prod];
    let how = all.into_iter().find(|c| c.name() == prim.name)?;
    let ([ty], [Attr::Sizes(axes)]) = (operands, attrs) else {
        return None;
    };
    let folded = axes.len();
    let kept = ty.rank().checked_sub(folded)?;
    let last = folded > 0 && axes.iter().copied().eq(kept..ty.rank());
    let length: usize = ty.shape[kept..].iter().product();
    let known = matches!(ty.dtype, DType::F32 | DType::F64);
    // How elements are dealt out to lanes must not depend on whether the loop walks several dimensions in one go.
    let long: Vec<usize> = ty.shape[kept..]
        .iter()
        .copied()
        .filter(|n| *n != 1)
        .collect();
    let even = long.len() <= 1 || long.last().is_some_and(|n| n % 8 == 0);
    (last && even && known && (1..=LONGEST_ROW).contains(&length) && !ty.shape.contains(&0))
        .then_some((how, folded))
}
