//! Segment reductions (`tf.math.segment_*`, `tf.math.unsorted_segment_*`): lowering, type inference, evaluation and VJPs.

use ndarray::{ArrayD, Axis};

use crate::autodiff::Backward;
use crate::build::{Builder, Lowering, Value};
use crate::graph::{PrimCall, Type};
use crate::interp::{Array, EvalError, Evaluation};
use crate::ops::rules::extrema::Extremum;
use crate::ops::rules::primitive::{arity, of_class};
use crate::ops::rules::shapes::one_result;
use crate::types::{Class, DType};

/// Rows and the segments that they belong to.
#[derive(Debug, Clone, Copy)]
pub(in crate::ops) struct SegmentedRows<'g> {
    /// The rows.
    pub(in crate::ops) rows: Value<'g>,
    /// The segment (i64) of each; a negative one for rows that belong to none.
    pub(in crate::ops) ids: Value<'g>,
    /// The number of segments, or its upper bound.
    pub(in crate::ops) segments: usize,
}

impl<'g> SegmentedRows<'g> {
    /// The arguments of a call whose ids come in any order.
    pub(in crate::ops) fn unsorted(l: &Lowering<'g, '_>) -> SegmentedRows<'g> {
        let (data, ids) = (l.value("data"), l.value("segment_ids").cast(DType::I64));
        let shape = ids.shape();
        let dims = &l.call.tensor("segment_ids").shape.0;
        let ids = l.mask(ids, dims, &ids.axes(), -1.0);
        let n = shape.iter().product();
        let rows = [&[n], &data.shape()[shape.len()..]].concat();
        SegmentedRows {
            rows: data.reshape(&rows),
            ids: ids.reshape(&[n]),
            segments: l.shape(0)[0],
        }
    }

    /// The arguments of a call whose ids ascend, which is checked when the graph runs. Where the number of segments was left
    /// out, it is a count: one more than the last id.
    pub(in crate::ops) fn sorted(l: &Lowering<'g, '_>) -> SegmentedRows<'g> {
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
            // Past the count the ids keep the value of the last one.
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
        SegmentedRows {
            rows,
            ids,
            segments,
        }
    }

    /// The sum of each segment.
    pub(in crate::ops) fn sum(&self) -> Value<'g> {
        self.sum_of(self.rows)
    }

    /// The maximum of each segment; the lowest number of the type for an empty one.
    pub(in crate::ops) fn max(&self) -> Value<'g> {
        self.rows.segment_max(self.ids, self.segments)
    }

    /// The minimum of each segment; the highest number of the type for an empty one.
    pub(in crate::ops) fn min(&self) -> Value<'g> {
        self.rows.segment_min(self.ids, self.segments)
    }

    /// The product of each segment; 1 for an empty one.
    pub(in crate::ops) fn prod(&self) -> Value<'g> {
        self.rows.segment_prod(self.ids, self.segments)
    }

    /// The number of rows of each segment, clamped to at least `min`, in a shape that broadcasts with the rows.
    pub(in crate::ops) fn sizes(&self, min: f64) -> Value<'g> {
        let ones = self.b().full(&self.ids.ty(), 1.0);
        let sizes = self.sum_of(ones);
        let sizes = sizes.maximum(sizes.like(min)).cast(self.rows.dtype());
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
        let (targets, belongs) = clamped_ids(self.ids, rows);
        // A row that belongs to no segment adds 0 to the first, so there must be one.
        let mut ty = rows.ty();
        ty.shape[0] = self.segments.max(1);
        let rows = belongs.select(rows, rows.like(0.0));
        let sums = self.b().full(&ty, 0.0).scatter_add(targets, rows);
        sums.narrow(0, 0, self.segments)
    }
}

/// Ids clamped to 0, valid as indices, and for each row whether it belongs to a segment at all.
fn clamped_ids<'g>(ids: Value<'g>, rows: Value<'g>) -> (Value<'g>, Value<'g>) {
    let zero = ids.like(0.0);
    let belongs = ids.greater_equal(zero);
    let n = ids.shape()[0];
    (ids.maximum(zero), belongs.reshape(&column(n, rows)))
}

/// The shape of one number for each of `n` rows, broadcastable with the rows.
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
            one_result(rows.dtype, [&[call.size("segments")], rest].concat())
        }
        _ => Err(format!("there must be one id for each row: {rows}, {ids}")),
    }
}

/// Evaluates the maximum or minimum of the rows of each segment; NaN is propagated.
pub(in crate::ops) fn reduce_extremum(
    e: &Evaluation<'_>,
    extremum: Extremum,
) -> Result<Vec<Array>, EvalError> {
    let dtype = e.results[0].dtype;
    reduce_rows(
        e,
        (extremum.finite_identity(dtype), |a, b| {
            extremum.of_floats(a, b)
        }),
        (extremum.int_identity(dtype), |a, b| extremum.of_ints(a, b)),
    )
}

/// Reduces the rows of each segment, starting from the identity element; `float` and `int` combine the accumulator with an
/// element of one more row.
pub(in crate::ops) fn reduce_rows(
    e: &Evaluation<'_>,
    (float_identity, float): (f64, impl Fn(f64, f64) -> f64),
    (int_identity, int): (i64, impl Fn(i64, i64) -> i64),
) -> Result<Vec<Array>, EvalError> {
    Ok(vec![match e.x(0) {
        Array::Float(rows) => e.floats(reduce(e, rows, float_identity, float)?),
        Array::Int(rows) => e.ints(reduce(e, rows, int_identity, int)?),
        Array::Bool(_) => panic!("`{}` takes numbers", e.prim.name),
    }])
}

fn reduce<T: Copy>(
    e: &Evaluation<'_>,
    rows: &ndarray::ArcArray<T, ndarray::IxDyn>,
    identity: T,
    f: impl Fn(T, T) -> T,
) -> Result<ArrayD<T>, EvalError> {
    let segments = e.size("segments");
    let mut y = ArrayD::from_elem(e.shape(), identity);
    for (id, row) in e.x(1).int().iter().zip(rows.outer_iter()) {
        if *id < 0 {
            continue;
        }
        match usize::try_from(*id) {
            Ok(segment) if segment < segments => {
                let mut at = y.index_axis_mut(Axis(0), segment);
                at.zip_mut_with(&row, |at, x| *at = f(*at, *x));
            }
            _ => {
                let message = format!("segment id {id} is out of range 0..{segments}");
                return Err(EvalError::new(message));
            }
        }
    }
    Ok(y)
}

/// The VJP of a segment maximum or minimum: rows equal to it share dy evenly, others get 0.
pub(in crate::ops) fn segment_extremum_vjp<'g>(g: &Backward<'g>) -> Value<'g> {
    let rows = g.x(0);
    let Some((targets, belongs)) = segment_of_rows(g) else {
        return g.b.full(&rows.ty(), 0.0);
    };
    let ties = rows.equal(g.y().take(targets)).logical_and(belongs);
    let zeros_of_y = g.b.full(&g.y().ty(), 0.0);
    let tie_count = zeros_of_y.scatter_add(targets, ties.cast(rows.dtype()));
    let share = g.dy() / tie_count.maximum(tie_count.like(1.0));
    ties.select(share.take(targets), rows.like(0.0))
}

/// The VJP of a segment product: dy times the product of the segment's other rows. Where one element is 0, only that one
/// gets a gradient; where several are, none does.
pub(in crate::ops) fn segment_product_vjp<'g>(g: &Backward<'g>) -> Value<'g> {
    let rows = g.x(0);
    let Some((targets, belongs)) = segment_of_rows(g) else {
        return g.b.full(&rows.ty(), 0.0);
    };
    let rows = belongs.select(rows, rows.like(1.0));
    let zero = rows.equal(rows.like(0.0));
    let others = zero.select(rows.like(1.0), rows);
    let without = others.segment_prod(g.x(1), g.size("segments"));
    let zeros_of_y = g.b.full(&g.y().ty(), 0.0);
    let zeros = zeros_of_y.scatter_add(targets, zero.cast(rows.dtype()));
    let dy = zeros.greater(zeros.like(1.0)).select(zeros_of_y, g.dy());
    let others_product = zero.select(without.take(targets), g.y().take(targets) / others);
    belongs.select(dy.take(targets) * others_product, rows.like(0.0))
}

/// The clamped ids of the rows and whether each belongs to a segment; `None` where there is no segment at all.
fn segment_of_rows<'g>(g: &Backward<'g>) -> Option<(Value<'g>, Value<'g>)> {
    let (rows, ids) = (g.x(0), g.x(1).cast(DType::I64));
    let (targets, belongs) = clamped_ids(ids, rows);
    match g.size("segments") {
        0 => None,
        _ => Some((targets, belongs.broadcast(&rows.shape()))),
    }
}
