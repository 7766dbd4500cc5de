//! Rows at positions: taken, added to, replaced.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use trainspec_ir::interp::EvalError;

use super::elements::{Elem, Float, any, floats, ints};
use super::{GRAIN, Routine, Scratch, Slice, y};
use crate::exec::parallel;
use crate::exec::pool::Pool;

/// How many rows are taken by one task, where they are short.
const TAKEN: usize = 1 << 11;

/// Copies of the rows at positions.
pub(super) fn take(r: &mut Routine<'_>) -> Result<(), EvalError> {
    r.check();
    let shape = &r.types[0].shape;
    let (length, width) = (shape[0], shape[1..].iter().product::<usize>());
    let lines = (GRAIN / width.max(1)).clamp(1, TAKEN);
    // The first position that is out of range.
    let wrong = AtomicUsize::new(usize::MAX);
    any!(r.results[0].dtype, T => ints!(r.types[1].dtype, I => {
        let (x, places) = (r.x::<T>(0), r.x::<I>(1));
        let y = y::<T>(&mut r.outputs[0]);
        let row_of = |number: usize| {
            let place = usize::try_from(places[number].to_i64()).ok().filter(|p| *p < length);
            if place.is_none() {
                wrong.fetch_min(number, Relaxed);
            }
            place
        };
        if width == 0 {
            (0..places.len()).for_each(|number| {
                row_of(number);
            });
        }
        if width == 1 {
            parallel::chunks_mut(r.pool, y, lines, |i, part| {
                for (number, (y, place)) in part.iter_mut().zip(&places[i * lines..]).enumerate() {
                    // A negative position is far behind the last.
                    match x.get(place.to_i64() as usize) {
                        Some(x) => *y = *x,
                        None => {
                            row_of(i * lines + number);
                        }
                    }
                }
            });
        } else {
            parallel::chunks_mut(r.pool, y, lines * width.max(1), |i, part| {
                for (number, row) in part.chunks_exact_mut(width.max(1)).enumerate() {
                    if let Some(place) = row_of(i * lines + number) {
                        row.copy_from_slice(&x[place * width..][..width]);
                    }
                }
            });
        }
        match wrong.into_inner() {
            usize::MAX => Ok(()),
            number => Err(out_of_range(places[number].to_i64(), length)),
        }
    }))
}

pub(super) fn out_of_range(index: i64, length: usize) -> EvalError {
    EvalError(format!("index {index} is out of range 0..{length}"))
}

/// A tensor with rows added at positions, one after another.
pub(super) fn scatter_add(r: &mut Routine<'_>) -> Result<(), EvalError> {
    prepare(r)?;
    let dtype = r.results[0].dtype;
    match dtype.is_float() {
        true => floats!(dtype, T => add_floats::<T>(r)),
        false => ints!(dtype, T => change(r, |at: &mut T, x: &T| {
            *at = T::from_i64(at.to_i64().wrapping_add(x.to_i64()));
        })),
    }
    Ok(())
}

/// A tensor with rows replaced at positions, one after another.
pub(super) fn scatter_set(r: &mut Routine<'_>) -> Result<(), EvalError> {
    prepare(r)?;
    any!(r.results[0].dtype, T => change(r, |at: &mut T, x: &T| *at = *x));
    Ok(())
}

/// A tensor with the first rows put at positions, no two of which are the same.
///
/// Without its first operand it puts them into what is in the place of the result.
pub(super) fn put_rows(r: &mut Routine<'_>) -> Result<(), EvalError> {
    let in_place = r.operands[0].is_empty();
    if !in_place {
        r.check();
    }
    let (places, count) = (r.x::<i64>(1), r.x::<i64>(3)[0]);
    let places = &places[..(count.max(0) as usize).min(places.len())];
    any!(r.results[0].dtype, T => {
        let (x, rows, width) = (r.x::<T>(0), r.x::<T>(2), width(r));
        let y = y::<T>(&mut r.outputs[0]);
        if !in_place {
            y.copy_from_slice(x);
        }
        parallel::put_rows(r.pool, y, width, places, rows);
    });
    Ok(())
}

fn prepare(r: &mut Routine<'_>) -> Result<(), EvalError> {
    r.check();
    let length = r.types[0].shape[0];
    row_numbers(&r.operands[1], length, &mut r.scratch.places)
}

/// Positions as numbers of rows, of which there are `length`.
fn row_numbers(
    indices: &Slice<'_>,
    length: usize,
    places: &mut Vec<usize>,
) -> Result<(), EvalError> {
    places.clear();
    ints!(indices.dtype(), T => {
        for index in T::of(indices).expect("positions have a type") {
            match usize::try_from(index.to_i64()) {
                Ok(place) if place < length => places.push(place),
                _ => return Err(out_of_range(index.to_i64(), length)),
            }
        }
    });
    Ok(())
}

/// Sums in the type that sums are made in.
fn add_floats<T: Float>(r: &mut Routine<'_>) {
    let (x, rows, width) = (r.x::<T>(0), r.x::<T>(2), width(r));
    let (pool, places) = (r.pool, &r.scratch.places);
    with_sums(r.scratch, y::<T>(&mut r.outputs[0]), |sums| {
        for (sum, x) in sums.iter_mut().zip(x) {
            *sum = x.widen();
        }
        at_rows(pool, places, width, sums, |number, sum| {
            for (sum, x) in sum.iter_mut().zip(&rows[number * width..]) {
                *sum += x.widen();
            }
        });
    });
}

/// Lets `work` make sums, whose room is arbitrary before, and rounds them.
pub(super) fn with_sums<T: Float>(
    scratch: &Scratch,
    y: &mut [T],
    work: impl FnOnce(&mut [T::Sum]),
) {
    if let Some(sums) = T::as_sums(y) {
        return work(sums);
    }
    use super::scratch::Kept;
    T::Sum::shelf(scratch).lend(y.len(), |sums| {
        work(sums);
        for (y, sum) in y.iter_mut().zip(&*sums) {
            *y = T::narrow(*sum);
        }
    });
}

fn change<T: Elem>(r: &mut Routine<'_>, f: impl Fn(&mut T, &T) + Sync) {
    let (x, rows, width) = (r.x::<T>(0), r.x::<T>(2), width(r));
    let y = y::<T>(&mut r.outputs[0]);
    y.copy_from_slice(x);
    at_rows(r.pool, &r.scratch.places, width, y, |number, at| {
        for (at, x) in at.iter_mut().zip(&rows[number * width..]) {
            f(at, x);
        }
    });
}

fn width(r: &Routine<'_>) -> usize {
    r.types[0].shape[1..].iter().product()
}

/// Calls `work` for each place with its number and the row of `y` there, the same row being visited in order. A place
/// behind the rows is skipped.
pub(super) fn at_rows<T: Send>(
    pool: &Pool,
    places: &[usize],
    width: usize,
    y: &mut [T],
    work: impl Fn(usize, &mut [T]) + Sync,
) {
    if width == 0 || y.is_empty() {
        return;
    }
    // Each task reads all places, so there are few tasks, and one only where rows are short.
    let tasks = match width {
        0..4 => 1,
        _ => (places.len() * width / GRAIN).clamp(1, 8),
    };
    let rows = (y.len() / width).div_ceil(tasks);
    parallel::chunks_mut(pool, y, rows * width, |i, part| {
        let first = i * rows;
        let own = first..first + part.len() / width;
        for (number, place) in places.iter().enumerate() {
            if own.contains(place) {
                work(number, &mut part[(place - first) * width..][..width]);
            }
        }
    });
}
