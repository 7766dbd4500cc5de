//! Unsorted segment reductions (tf.math.unsorted_segment_max, min and prod).

use half::{bf16, f16};
use trainspec_ir::DType;
use trainspec_ir::interp::EvalError;

use super::elements::{Elem, Float, Int, floats, ints};
use super::gather_scatter::at_rows;
use super::{Routine, y};

/// The maximum of each segment; the lowest finite value for an empty one.
pub(super) fn max(r: &mut Routine<'_>) -> Result<(), EvalError> {
    prepare(r)?;
    let dtype = r.results[0].dtype;
    match dtype.int_range() {
        Some((least, _)) => ints!(dtype, T => int_extremes::<T>(r, least, |a, b| a > b)),
        None => floats!(dtype, T => {
            float_extremes::<T>(r, -highest(dtype), |a, b| a > b)
        }),
    }
    Ok(())
}

/// The minimum of each segment; the highest finite value for an empty one.
pub(super) fn min(r: &mut Routine<'_>) -> Result<(), EvalError> {
    prepare(r)?;
    let dtype = r.results[0].dtype;
    match dtype.int_range() {
        Some((_, most)) => ints!(dtype, T => int_extremes::<T>(r, most, |a, b| a < b)),
        None => floats!(dtype, T => float_extremes::<T>(r, highest(dtype), |a, b| a < b)),
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

/// The largest finite number of a float type.
fn highest(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => f16::MAX.to_f64(),
        DType::Bf16 => bf16::MAX.to_f64(),
        DType::F32 => f32::MAX.into(),
        DType::F64 => f64::MAX,
        other => panic!("{other} is no float"),
    }
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
                    return Err(EvalError(message));
                }
            }
        }
    });
    Ok(())
}

/// Integer maximum or minimum.
fn int_extremes<T: Int>(r: &mut Routine<'_>, start: i64, better: fn(T, T) -> bool) {
    reduce(r, T::from_i64(start), |at: &mut T, x: T| {
        if better(x, *at) {
            *at = x;
        }
    });
}

/// Float maximum or minimum: propagates NaN; of equal ones the last.
fn float_extremes<T: Float>(r: &mut Routine<'_>, start: f64, better: fn(T, T) -> bool) {
    reduce(r, T::rounded(start), |at: &mut T, x: T| {
        if !(at.to_f64().is_nan() || better(*at, x)) {
            *at = x;
        }
    });
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

fn width(r: &Routine<'_>) -> usize {
    r.types[0].shape[1..].iter().product()
}
