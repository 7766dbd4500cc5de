//! Rows at positions: taken, added to, replaced.

use trainspec_ir::interp::Fault;

use super::elements::{Elem, Float, any, floats, ints};
use super::{GRAIN, Routine, Scratch, Slice, y};
use crate::exec::parts;
use crate::exec::pool::Pool;

/// Copies of the rows at positions.
pub(super) fn take(r: &mut Routine<'_>) -> Result<(), Fault> {
    r.check();
    let shape = &r.types[0].shape;
    row_numbers(&r.operands[1], shape[0], usize::MAX, &mut r.scratch.places)?;
    let width: usize = shape[1..].iter().product();
    any!(r.results[0].dtype, T => {
        let (x, places) = (r.x::<T>(0), &r.scratch.places);
        let y = y::<T>(&mut r.outputs[0]);
        if width == 1 {
            parts::each(r.pool, y, GRAIN, |i, part| {
                for (y, place) in part.iter_mut().zip(&places[i * GRAIN..]) {
                    *y = x[*place];
                }
            });
            return Ok(());
        }
        let lines = (GRAIN / width.max(1)).max(1);
        parts::each(r.pool, y, lines * width, |i, part| {
            let rows = part.chunks_exact_mut(width);
            for (row, place) in rows.zip(&places[i * lines..]) {
                row.copy_from_slice(&x[place * width..][..width]);
            }
        });
    });
    Ok(())
}

/// A tensor with rows added at positions, one after another.
pub(super) fn scatter_add(r: &mut Routine<'_>) -> Result<(), Fault> {
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
pub(super) fn scatter_set(r: &mut Routine<'_>) -> Result<(), Fault> {
    prepare(r)?;
    any!(r.results[0].dtype, T => change(r, |at: &mut T, x: &T| *at = *x));
    Ok(())
}

/// A tensor with the first rows put at positions, no two of which are the same.
pub(super) fn put_rows(r: &mut Routine<'_>) -> Result<(), Fault> {
    r.check();
    let (places, count) = (r.x::<i64>(1), r.x::<i64>(3)[0]);
    let places = &places[..(count.max(0) as usize).min(places.len())];
    any!(r.results[0].dtype, T => {
        let (x, rows, width) = (r.x::<T>(0), r.x::<T>(2), width(r));
        let y = y::<T>(&mut r.outputs[0]);
        y.copy_from_slice(x);
        put(y, places, rows, width);
    });
    Ok(())
}

fn put<T: Elem>(y: &mut [T], places: &[i64], rows: &[T], width: usize) {
    if width == 1 {
        for (place, new) in places.iter().zip(rows) {
            if let Some(at) = y.get_mut(*place as usize) {
                *at = *new;
            }
        }
        return;
    }
    for (place, new) in places.iter().zip(rows.chunks_exact(width.max(1))) {
        let at = (*place as usize).saturating_mul(width);
        if let Some(at) = y.get_mut(at..at.saturating_add(width)) {
            at.copy_from_slice(new);
        }
    }
}

fn prepare(r: &mut Routine<'_>) -> Result<(), Fault> {
    r.check();
    let length = r.types[0].shape[0];
    row_numbers(&r.operands[1], length, usize::MAX, &mut r.scratch.places)
}

/// The first `most` positions as numbers of rows, of which there are `length`.
pub(super) fn row_numbers(
    indices: &Slice<'_>,
    length: usize,
    most: usize,
    places: &mut Vec<usize>,
) -> Result<(), Fault> {
    places.clear();
    ints!(indices.dtype(), T => {
        for index in T::of(indices).expect("positions have a type").iter().take(most) {
            match usize::try_from(index.to_i64()) {
                Ok(place) if place < length => places.push(place),
                _ => return Err(Fault(format!("index {index} is out of range 0..{length}"))),
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
    parts::each(pool, y, rows * width, |i, part| {
        let first = i * rows;
        let own = first..first + part.len() / width;
        for (number, place) in places.iter().enumerate() {
            if own.contains(place) {
                work(number, &mut part[(place - first) * width..][..width]);
            }
        }
    });
}
