//! Axis normalisation: negative axes count from the end.

use crate::ops::op::{Call, RuleError, RuleErrorKind};
use crate::ops::rules::checks::dimensions;

/// The index of `axis` in a shape of `rank` dimensions; negative axes count from the end.
pub(in crate::ops) fn axis(
    param: &'static str,
    axis: i64,
    rank: usize,
) -> Result<usize, RuleError> {
    let index = if axis < 0 { axis + rank as i64 } else { axis };
    if (0..rank as i64).contains(&index) {
        return Ok(index as usize);
    }
    let error = RuleError::new(
        RuleErrorKind::AxisOutOfRange,
        format!(
            "axis {axis} does not exist: the tensor has {}",
            dimensions(rank)
        ),
    )
    .at(param);
    Err(match rank {
        0 => error,
        _ => error.help(format!(
            "use an axis from {} to {}",
            -(rank as i64),
            rank as i64 - 1
        )),
    })
}

/// The index at which a new dimension is inserted in a shape of `rank` dimensions; -1 is after the last.
pub(in crate::ops) fn insertion_axis(
    param: &'static str,
    axis: i64,
    rank: usize,
) -> Result<usize, RuleError> {
    let slots = rank as i64 + 1;
    let index = if axis < 0 { axis + slots } else { axis };
    if (0..slots).contains(&index) {
        return Ok(index as usize);
    }
    Err(RuleError::new(
        RuleErrorKind::AxisOutOfRange,
        format!(
            "no dimension can go at {axis}: the tensor has {}",
            dimensions(rank)
        ),
    )
    .at(param)
    .help(format!("use an axis from {} to {rank}", -slots)))
}

/// The indices of a list of axes, in the order of the list, without duplicates.
pub(in crate::ops) fn axes(
    param: &'static str,
    list: &[i64],
    rank: usize,
) -> Result<Vec<usize>, RuleError> {
    let mut indices = Vec::with_capacity(list.len().min(rank));
    for a in list {
        let index = axis(param, *a, rank)?;
        if indices.contains(&index) {
            return Err(RuleError::new(
                RuleErrorKind::BadValue,
                format!("axis {a} is named twice"),
            )
            .at(param));
        }
        indices.push(index);
    }
    Ok(indices)
}

/// The indices of the axes that an optional parameter names; all axes where it is left out.
pub(in crate::ops) fn all_axes(
    call: &Call<'_>,
    param: &'static str,
    rank: usize,
) -> Result<Vec<usize>, RuleError> {
    match call.ints_opt(param)? {
        Some(list) => axes(param, &list, rank),
        None => Ok((0..rank).collect()),
    }
}
