//! Segment reductions (`tf.math.segment_*`, `tf.math.unsorted_segment_*`): parameters and type inference.

use crate::ops::op::{Call, Elements, Kind, Param, RuleError};
use crate::ops::rules::checks::{at_least, exact_rank, fits, min_rank, prefix};
use crate::types::{Class, Dim, TensorType};

/// Parameters of a sorted segment reduction of numbers.
pub(in crate::ops) const SEGMENT_NUMBER: &[Param] = &[data(Class::Number), IDS, OPTIONAL_SEGMENTS];

/// Parameters of a sorted segment reduction of floats.
pub(in crate::ops) const SEGMENT_FLOAT: &[Param] = &[data(Class::Float), IDS, OPTIONAL_SEGMENTS];

/// Parameters of an unsorted segment reduction.
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

/// One row for each segment: one more than the last id, or `num_segments`.
///
/// Without `num_segments` the capacity is the number of rows of `data`, so ids must be below it.
pub(in crate::ops) fn segment(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    exact_rank(call, "segment_ids", 1)?;
    min_rank(call, "data", 1)?;
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
