//! Rows that belong to segments, on their way from operations to primitives, and the primitives that reduce them.

use ndarray::{ArrayD, Axis};

use crate::autodiff::Backward;
use crate::build::{Builder, Lowering, Value};
use crate::graph::{PrimCall, Type};
use crate::interp::{Array, EvalError, Evaluation};
use crate::ops::rules::primitive::{arity, of_class};
use crate::ops::rules::shapes::made;
use crate::types::{Class, DType};

/// Rows and the segments that they belong to.
#[derive(Debug, Clone, Copy)]
pub(in crate::ops) struct Grouped<'g> {
    /// The rows.
    pub(in crate::ops) rows: Value<'g>,
    /// The segment (i64) of each; a negative one for rows that belong to none.
    pub(in crate::ops) ids: Value<'g>,
    /// How many segments there are, at the most.
    pub(in crate::ops) segments: usize,
}

impl<'g> Grouped<'g> {
    /// The arguments of a call whose ids come in any order.
    pub(in crate::ops) fn unsorted(l: &Lowering<'g, '_>) -> Grouped<'g> {
        let (data, ids) = (l.value("data"), l.value("segment_ids").cast(DType::I64));
        let shape = ids.shape();
        let dims = &l.call.tensor("segment_ids").shape.0;
        let ids = l.mask(ids, dims, &ids.axes(), -1.0);
        let n = shape.iter().product();
        let rows = [&[n], &data.shape()[shape.len()..]].concat();
        Grouped {
            rows: data.reshape(&rows),
            ids: ids.reshape(&[n]),
            segments: l.shape(0)[0],
        }
    }

    /// The arguments of a call whose ids ascend, which is checked when the graph runs. Where the number of segments was left
    /// out, it is a count: one more than the last id.
    pub(in crate::ops) fn sorted(l: &Lowering<'g, '_>) -> Grouped<'g> {
        let segments = l.shape(0)[0];
        let (rows, ids) = (l.value("data"), l.value("segment_ids").cast(DType::I64));
        let (n, dims) = (ids.shape()[0], &l.call.tensor("segment_ids").shape.0);
        let zero = l.b.int(DType::I64, 0);
        let mut end = zero;
        let mut ids = ids;
        if n > 0 {
            ids = l.mask(ids, dims, &[0], 0.0);
            ids = ids.bounded(0, segments.max(1) as i64, "segment_ids");
            let before = ids.narrow(0, 0, n - 1).pad(zero, &[1], &[0], &[0]);
            // Behind the count the ids stay what the last one is.
            let steps = l.mask(ids - before, dims, &[0], 0.0);
            let steps = steps.bounded(0, i64::MAX, "segment_ids[i + 1] - segment_ids[i]");
            ids = steps.cumsum(0, false, false);
            end = ids.narrow(0, n - 1, 1).reshape(&[]) + 1.0;
            if let Some(count) = l.count(&dims[0]) {
                end = count.greater(zero).select(end, zero);
            }
            ids = l.mask(ids, dims, &[0], -1.0);
        }
        if l.call.size_opt("num_segments").is_none() {
            l.define_count(&l.call.count(), end);
        }
        Grouped {
            rows,
            ids,
            segments,
        }
    }

    /// The sum of each segment.
    pub(in crate::ops) fn sum(&self) -> Value<'g> {
        self.sum_of(self.rows)
    }

    /// How many rows each segment has, as numbers (of at least `least`) that go with the rows.
    pub(in crate::ops) fn sizes(&self, least: f64) -> Value<'g> {
        let ones = self.b().full(&self.ids.ty(), 1.0);
        let sizes = self.sum_of(ones);
        let sizes = sizes.maximum(sizes.like(least)).cast(self.rows.dtype());
        sizes.reshape(&column(self.segments, self.rows))
    }

    /// A result with 0 for segments that have no rows.
    pub(in crate::ops) fn or_zero(&self, y: Value<'g>) -> Value<'g> {
        let sizes = self.sizes(0.0);
        sizes.greater(sizes.like(0.0)).select(y, y.like(0.0))
    }

    fn b(&self) -> &'g Builder {
        self.rows.builder()
    }

    fn sum_of(&self, rows: Value<'g>) -> Value<'g> {
        let (places, belongs) = places(self.ids, rows);
        // A row that belongs to no segment adds 0 to the first, so there must be one.
        let mut ty = rows.ty();
        ty.shape[0] = self.segments.max(1);
        let rows = belongs.select(rows, rows.like(0.0));
        let sums = self.b().full(&ty, 0.0).scatter_add(places, rows);
        sums.narrow(0, 0, self.segments)
    }
}

/// Positions that can be taken, and for each row whether it belongs to a segment at all.
fn places<'g>(ids: Value<'g>, rows: Value<'g>) -> (Value<'g>, Value<'g>) {
    let zero = ids.like(0.0);
    let belongs = ids.greater_equal(zero);
    let n = ids.shape()[0];
    (ids.maximum(zero), belongs.reshape(&column(n, rows)))
}

/// The shape of one number for each of `n` rows.
fn column(n: usize, rows: Value<'_>) -> Vec<usize> {
    let mut shape = vec![1; rows.rank()];
    shape[0] = n;
    shape
}

/// Rows and a vector of their ids: the result is a row for each of `segments`.
pub(in crate::ops) fn infer(call: &PrimCall<'_>) -> Result<Vec<Type>, String> {
    let [rows, ids] = arity(call)?;
    of_class(rows, Class::Number)?;
    of_class(ids, Class::Int)?;
    match (&rows.shape[..], &ids.shape[..]) {
        ([n, rest @ ..], [m]) if n == m => {
            made(rows.dtype, [&[call.size("segments")], rest].concat())
        }
        _ => Err(format!("there must be one id for each row: {rows}, {ids}")),
    }
}

/// Reduces the rows of each segment from `start` on: `float` and `int` take what there is and an element of one more row.
pub(in crate::ops) fn reduce_rows(
    e: &Evaluation<'_>,
    (float_start, float): (f64, fn(f64, f64) -> f64),
    (int_start, int): (i64, fn(i64, i64) -> i64),
) -> Result<Vec<Array>, EvalError> {
    Ok(vec![match e.x(0) {
        Array::Float(rows) => e.floats(reduce(e, rows, float_start, float)?),
        Array::Int(rows) => e.ints(reduce(e, rows, int_start, int)?),
        Array::Bool(_) => panic!("`{}` takes numbers", e.prim.name),
    }])
}

fn reduce<T: Copy>(
    e: &Evaluation<'_>,
    rows: &ndarray::ArcArray<T, ndarray::IxDyn>,
    start: T,
    f: fn(T, T) -> T,
) -> Result<ArrayD<T>, EvalError> {
    let segments = e.size("segments");
    let mut y = ArrayD::from_elem(e.shape(), start);
    for (id, row) in e.x(1).int().iter().zip(rows.outer_iter()) {
        if *id < 0 {
            continue;
        }
        match usize::try_from(*id) {
            Ok(place) if place < segments => {
                let mut at = y.index_axis_mut(Axis(0), place);
                at.zip_mut_with(&row, |at, x| *at = f(*at, *x));
            }
            _ => {
                let message = format!("segment id {id} is out of range 0..{segments}");
                return Err(EvalError(message));
            }
        }
    }
    Ok(y)
}

/// What flows back from the extreme of each segment: the rows that are equal to it share it evenly.
pub(in crate::ops) fn of_ties<'g>(g: &Backward<'g>) -> Value<'g> {
    let rows = g.x(0);
    let Some((places, belongs)) = taken(g) else {
        return g.b.full(&rows.ty(), 0.0);
    };
    let chosen = rows.equal(g.y().take(places)).logical_and(belongs);
    let none = g.b.full(&g.y().ty(), 0.0);
    let number = none.scatter_add(places, chosen.cast(rows.dtype()));
    let share = g.dy() / number.maximum(number.like(1.0));
    chosen.select(share.take(places), rows.like(0.0))
}

/// What flows back from the product of each segment: the product of its other rows. Where one element is 0, all but
/// that one get nothing; where several are, all.
pub(in crate::ops) fn of_others<'g>(g: &Backward<'g>) -> Value<'g> {
    let rows = g.x(0);
    let Some((places, belongs)) = taken(g) else {
        return g.b.full(&rows.ty(), 0.0);
    };
    let rows = belongs.select(rows, rows.like(1.0));
    let zero = rows.equal(rows.like(0.0));
    let others = zero.select(rows.like(1.0), rows);
    let without = others.segment_prod(g.x(1), g.size("segments"));
    let none = g.b.full(&g.y().ty(), 0.0);
    let zeros = none.scatter_add(places, zero.cast(rows.dtype()));
    let dy = zeros.greater(zeros.like(1.0)).select(none, g.dy());
    let slope = zero.select(without.take(places), g.y().take(places) / others);
    belongs.select(dy.take(places) * slope, rows.like(0.0))
}

/// The positions of the rows' segments and whether they have one; `None` where there is no segment at all.
fn taken<'g>(g: &Backward<'g>) -> Option<(Value<'g>, Value<'g>)> {
    let (rows, ids) = (g.x(0), g.x(1).cast(DType::I64));
    let (places, belongs) = places(ids, rows);
    match g.size("segments") {
        0 => None,
        _ => Some((places, belongs.broadcast(&rows.shape()))),
    }
}
