//! Gather (tf.gather) and scatter (add, set) of rows by index.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use trainspec_ir::interp::EvalError;

use super::elements::{Elem, Float, any, floats, ints};
use super::{GRAIN, Routine, Scratch, Slice, y};
use crate::exec::parallel;
use crate::exec::pool::Pool;

/// The most rows of a gather task.
const MAX_TASK_ROWS: usize = 1 << 11;

/// Gather: copies the rows at indices. Fails with the first index that is out of range.
pub(super) fn take(r: &mut Routine<'_>) -> Result<(), EvalError> {
    r.check();
    let shape = &r.types[0].shape;
    let (length, width) = (shape[0], shape[1..].iter().product::<usize>());
    let task_rows = (GRAIN / width.max(1)).clamp(1, MAX_TASK_ROWS);
    // The first entry whose index is out of range.
    let first_bad = AtomicUsize::new(usize::MAX);
    any!(r.results[0].dtype, T => ints!(r.types[1].dtype, I => {
        let (x, row_indices) = (r.x::<T>(0), r.x::<I>(1));
        let y = y::<T>(&mut r.outputs[0]);
        let row_of = |number: usize| {
            let index = usize::try_from(row_indices[number].to_i64()).ok().filter(|p| *p < length);
            if index.is_none() {
                first_bad.fetch_min(number, Relaxed);
            }
            index
        };
        if width == 0 {
            (0..row_indices.len()).for_each(|number| {
                row_of(number);
            });
        }
        if width == 1 {
            parallel::chunks_mut(r.pool, y, task_rows, |i, part| {
                for (number, (y, index)) in part.iter_mut().zip(&row_indices[i * task_rows..]).enumerate() {
                    // A negative index is far beyond the last.
                    match x.get(index.to_i64() as usize) {
                        Some(x) => *y = *x,
                        None => {
                            row_of(i * task_rows + number);
                        }
                    }
                }
            });
        } else {
            parallel::chunks_mut(r.pool, y, task_rows * width.max(1), |i, part| {
                for (number, row) in part.chunks_exact_mut(width.max(1)).enumerate() {
                    if let Some(index) = row_of(i * task_rows + number) {
                        row.copy_from_slice(&x[index * width..][..width]);
                    }
                }
            });
        }
        match first_bad.into_inner() {
            usize::MAX => Ok(()),
            number => Err(out_of_range(row_indices[number].to_i64(), length)),
        }
    }))
}

pub(super) fn out_of_range(index: i64, length: usize) -> EvalError {
    EvalError::new(format!("index {index} is out of range 0..{length}"))
}

/// Scatter-add: adds rows at indices, sequentially for equal indices.
pub(super) fn scatter_add(r: &mut Routine<'_>) -> Result<(), EvalError> {
    prepare(r)?;
    let dtype = r.results[0].dtype;
    match dtype.is_float() {
        true => floats!(dtype, T => add_floats::<T>(r)),
        false => ints!(dtype, T => scatter_with(r, |at: &mut T, x: &T| {
            *at = T::from_i64(at.to_i64().wrapping_add(x.to_i64()));
        })),
    }
    Ok(())
}

/// Scatter-set: replaces rows at indices; the last of equal indices wins.
pub(super) fn scatter_set(r: &mut Routine<'_>) -> Result<(), EvalError> {
    prepare(r)?;
    any!(r.results[0].dtype, T => scatter_with(r, |at: &mut T, x: &T| *at = *x));
    Ok(())
}

/// Scatter-set of the first `count` rows at unique indices.
///
/// Without its first operand it updates the result in place.
pub(super) fn put_rows(r: &mut Routine<'_>) -> Result<(), EvalError> {
    let in_place = r.operands[0].is_empty();
    if !in_place {
        r.check();
    }
    let (row_indices, count) = (r.x::<i64>(1), r.x::<i64>(3)[0]);
    let row_indices = &row_indices[..(count.max(0) as usize).min(row_indices.len())];
    any!(r.results[0].dtype, T => {
        let (x, rows, width) = (r.x::<T>(0), r.x::<T>(2), width(r));
        let y = y::<T>(&mut r.outputs[0]);
        if !in_place {
            y.copy_from_slice(x);
        }
        parallel::put_rows(r.pool, y, width, row_indices, rows);
    });
    Ok(())
}

/// Checks the types, and the indices of a scatter, which go to `Scratch::row_indices`.
fn prepare(r: &mut Routine<'_>) -> Result<(), EvalError> {
    r.check();
    let length = r.types[0].shape[0];
    row_numbers(&r.operands[1], length, &mut r.scratch.row_indices)
}

/// Indices as row numbers, checked against `length`.
fn row_numbers(
    indices: &Slice<'_>,
    length: usize,
    row_indices: &mut Vec<usize>,
) -> Result<(), EvalError> {
    row_indices.clear();
    ints!(indices.dtype(), T => {
        for index in T::of(indices).expect("indices have a type") {
            match usize::try_from(index.to_i64()) {
                Ok(index) if index < length => row_indices.push(index),
                _ => return Err(out_of_range(index.to_i64(), length)),
            }
        }
    });
    Ok(())
}

/// Scatter-add in the accumulator type.
fn add_floats<T: Float>(r: &mut Routine<'_>) {
    let (x, rows, width) = (r.x::<T>(0), r.x::<T>(2), width(r));
    let (pool, row_indices) = (r.pool, &r.scratch.row_indices);
    with_accumulators(r.scratch, y::<T>(&mut r.outputs[0]), |sums| {
        for (sum, x) in sums.iter_mut().zip(x) {
            *sum = x.widen();
        }
        at_rows(pool, row_indices, width, sums, |number, sum| {
            for (sum, x) in sum.iter_mut().zip(&rows[number * width..]) {
                *sum += x.widen();
            }
        });
    });
}

/// Calls `work` with accumulators for `y`, arbitrary before, and rounds them to `y`.
pub(super) fn with_accumulators<T: Float>(
    scratch: &Scratch,
    y: &mut [T],
    work: impl FnOnce(&mut [T::Acc]),
) {
    if let Some(sums) = T::as_accumulators(y) {
        return work(sums);
    }
    use super::scratch::Pooled;
    T::Acc::buffers(scratch).with(y.len(), |sums| {
        work(sums);
        for (y, sum) in y.iter_mut().zip(&*sums) {
            *y = T::narrow(*sum);
        }
    });
}

/// Scatter with any combining function `f(element, update)`, sequentially for equal indices.
fn scatter_with<T: Elem>(r: &mut Routine<'_>, f: impl Fn(&mut T, &T) + Sync) {
    let (x, rows, width) = (r.x::<T>(0), r.x::<T>(2), width(r));
    let y = y::<T>(&mut r.outputs[0]);
    y.copy_from_slice(x);
    at_rows(r.pool, &r.scratch.row_indices, width, y, |number, at| {
        for (at, x) in at.iter_mut().zip(&rows[number * width..]) {
            f(at, x);
        }
    });
}

/// The elements of a row of the first operand.
pub(super) fn width(r: &Routine<'_>) -> usize {
    r.types[0].shape[1..].iter().product()
}

/// Calls `work` for each index with its position and the row of `y` there, equal indices in order. An index
/// past the rows is skipped.
pub(super) fn at_rows<T: Send>(
    pool: &Pool,
    row_indices: &[usize],
    width: usize,
    y: &mut [T],
    work: impl Fn(usize, &mut [T]) + Sync,
) {
    if width == 0 || y.is_empty() {
        return;
    }
    // Each task scans all indices, so there are few tasks, and one only where rows are short.
    let tasks = match width {
        0..4 => 1,
        _ => (row_indices.len() * width / GRAIN).clamp(1, 8),
    };
    let rows = (y.len() / width).div_ceil(tasks);
    parallel::chunks_mut(pool, y, rows * width, |i, part| {
        let first = i * rows;
        let own = first..first + part.len() / width;
        for (number, index) in row_indices.iter().enumerate() {
            if own.contains(index) {
                work(number, &mut part[(index - first) * width..][..width]);
            }
        }
    });
}
