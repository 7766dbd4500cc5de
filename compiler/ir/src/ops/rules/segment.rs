//! Reductions of rows that belong together.

use crate::ops::op::{Call, Elements, Kind, Param, RuleError};
use crate::ops::rules::checks::{at_least, exact_rank, fits, least_rank, prefix};
use crate::types::{Class, Dim, TensorType};

/// What a reduction of sorted segments of numbers takes.
pub(in crate::ops) const SEGMENT_NUMBER: &[Param] = &[data(Class::Number), IDS, OPTIONAL_SEGMENTS];

/// What a reduction of sorted segments of floats takes.
pub(in crate::ops) const SEGMENT_FLOAT: &[Param] = &[data(Class::Float), IDS, OPTIONAL_SEGMENTS];

/// What a reduction of segments in any order takes.
pub(in crate::ops) const UNSORTED_SEGMENT: &[Param] = &[
    data(Class::Number),
    IDS,
    Param::required("num_segments", Kind::Int),
];

const IDS: Param = Param::counting("segment_ids", Kind::Tensor(Elements::Of(Class::Int)));
const OPTIONAL_SEGMENTS: Param = Param::optional("num_segments", Kind::Int);

const fn data(class: Class) -> Param {
    Param::required("data", Kind::Tensor(Elements::Same("T", class)))
}

/// One row for each segment: as many as the ids tell, or `num_segments`.
///
/// Without `num_segments` the room is that of the rows of `data`, so ids must be below their number.
pub(in crate::ops) fn segment(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    exact_rank(call, "segment_ids", 1)?;
    least_rank(call, "data", 1)?;
    let (data, ids) = (call.tensor("data"), call.tensor("segment_ids"));
    let rest = prefix(("segment_ids", ids), ("data", data))?;
    let rows = match call.size_opt("num_segments") {
        Some(n) => {
            at_least("num_segments", 0, n)?;
            Dim::exact(n.clone())
        }
        None => Dim::at_most(data.shape.0[0].size.clone(), call.count()),
    };
    fits(data.with_dims([&[rows], rest].concat()))
}

/// `num_segments` rows, each of what is left of `data` after the dimensions of the ids.
pub(in crate::ops) fn unsorted_segment(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    let (data, ids) = (call.tensor("data"), call.tensor("segment_ids"));
    let rest = prefix(("segment_ids", ids), ("data", data))?;
    let segments = call.size("num_segments");
    at_least("num_segments", 0, segments)?;
    let rows = Dim::exact(segments.clone());
    fits(data.with_dims([&[rows], rest].concat()))
}
