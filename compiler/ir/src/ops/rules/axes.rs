//! Axes: which dimension a number names.

use crate::ops::op::{Call, RuleError, RuleErrorKind};
use crate::ops::rules::checks::dimensions;

/// The place of `axis` in a shape of `rank` dimensions; negative axes count from the end.
pub(in crate::ops) fn axis(
    param: &'static str,
    axis: i64,
    rank: usize,
) -> Result<usize, RuleError> {
    let place = if axis < 0 { axis + rank as i64 } else { axis };
    if (0..rank as i64).contains(&place) {
        return Ok(place as usize);
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

/// The place at which a new dimension goes in a shape of `rank` dimensions; -1 is after the last.
pub(in crate::ops) fn place(
    param: &'static str,
    axis: i64,
    rank: usize,
) -> Result<usize, RuleError> {
    let places = rank as i64 + 1;
    let place = if axis < 0 { axis + places } else { axis };
    if (0..places).contains(&place) {
        return Ok(place as usize);
    }
    Err(RuleError::new(
        RuleErrorKind::AxisOutOfRange,
        format!(
            "no dimension can go at {axis}: the tensor has {}",
            dimensions(rank)
        ),
    )
    .at(param)
    .help(format!("use an axis from {} to {rank}", -places)))
}

/// The places of a list of axes, in the order of the list, each once.
pub(in crate::ops) fn axes(
    param: &'static str,
    list: &[i64],
    rank: usize,
) -> Result<Vec<usize>, RuleError> {
    let mut places = Vec::with_capacity(list.len().min(rank));
    for a in list {
        let place = axis(param, *a, rank)?;
        if places.contains(&place) {
            return Err(RuleError::new(
                RuleErrorKind::BadValue,
                format!("axis {a} is named twice"),
            )
            .at(param));
        }
        places.push(place);
    }
    Ok(places)
}

/// The places of the axes that an optional parameter names, which are all where it is left out.
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
