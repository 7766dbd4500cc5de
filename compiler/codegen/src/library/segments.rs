//! Unsorted segment reductions (tf.math.unsorted_segment_max, min and prod).

use trainspec_ir::interp::EvalError;

use super::argmax_argsort::is_better;
use super::elements::{Elem, Float, floats, ints};
use super::gather_scatter::{at_rows, width};
use super::{Routine, y};

/// The maximum of each segment; the lowest finite value for an empty one.
pub(super) fn max(r: &mut Routine<'_>) -> Result<(), EvalError> {
    extremum::<true>(r)
}

/// The minimum of each segment; the highest finite value for an empty one.
pub(super) fn min(r: &mut Routine<'_>) -> Result<(), EvalError> {
    extremum::<false>(r)
}

/// The maximum or minimum of each segment. Among floats NaN is propagated, and of equal ones the last is taken.
fn extremum<const MAX: bool>(r: &mut Routine<'_>) -> Result<(), EvalError> {
    prepare(r)?;
    let dtype = r.results[0].dtype;
    match dtype.int_range() {
        Some((least, most)) => ints!(dtype, T => {
            let identity = T::from_i64(if MAX { least } else { most });
            reduce(r, identity, |at: &mut T, x: T| {
                if is_better::<MAX, T>(x, *at) {
                    *at = x;
                }
            });
        }),
        None => floats!(dtype, T => {
            let highest = dtype.max_finite().expect("it is a float type");
            let identity = T::rounded(if MAX { -highest } else { highest });
            reduce(r, identity, |at: &mut T, x: T| {
                if !(at.to_f64().is_nan() || is_better::<MAX, T>(*at, x)) {
                    *at = x;
                }
            });
        }),
    }
    Ok(())
}

/// The product of each segment; 1 for an empty one.
pub(super) fn prod(r: &mut Routine<'_>) -> Result<(), EvalError> {
    prepare(r)?;
    let dtype = r.results[0].dtype;
    match dtype.is_float() {
        true => floats!(dtype, T => products::<T>(r)),
        false => ints!(dtype, T => {
            reduce(r, T::from_i64(1), |at: &mut T, x: T| {
                *at = T::from_i64(at.to_i64().wrapping_mul(x.to_i64()));
            });
        }),
    }
    Ok(())
}

/// The segment ids of the rows; negative ids, whose rows are dropped, become `usize::MAX`.
fn prepare(r: &mut Routine<'_>) -> Result<(), EvalError> {
    r.check();
    let segments = r.size("segments");
    let segments_of_rows = &mut r.scratch.row_indices;
    segments_of_rows.clear();
    ints!(r.types[1].dtype, T => {
        for id in T::of(&r.operands[1]).expect("ids have a type") {
            match usize::try_from(id.to_i64()) {
                Ok(segment) if segment < segments => segments_of_rows.push(segment),
                Err(_) => segments_of_rows.push(usize::MAX),
                Ok(_) => {
                    let message = format!("segment id {id} is out of range 0..{segments}");
                    return Err(EvalError::new(message));
                }
            }
        }
    });
    Ok(())
}

/// Products in f64: intermediate products could overflow in a narrower type.
fn products<T: Float>(r: &mut Routine<'_>) {
    let (rows, width, pool) = (r.x::<T>(0), width(r), r.pool);
    let (segments_of_rows, y) = (&r.scratch.row_indices, y::<T>(&mut r.outputs[0]));
    r.scratch.f64s.with(y.len(), |products| {
        products.fill(1.0);
        at_rows(pool, segments_of_rows, width, products, |number, at| {
            for (at, x) in at.iter_mut().zip(&rows[number * width..]) {
                *at *= x.to_f64();
            }
        });
        for (y, product) in y.iter_mut().zip(&*products) {
            *y = T::rounded(*product);
        }
    });
}

fn reduce<T: Elem>(r: &mut Routine<'_>, start: T, f: impl Fn(&mut T, T) + Sync) {
    let (rows, width) = (r.x::<T>(0), width(r));
    let y = y::<T>(&mut r.outputs[0]);
    y.fill(start);
    at_rows(r.pool, &r.scratch.row_indices, width, y, |number, at| {
        for (at, x) in at.iter_mut().zip(&rows[number * width..]) {
            f(at, *x);
        }
    });
}
