//! Positions along an axis: of the largest, of the smallest, and of all in their order.

use std::cmp::Ordering;

use trainspec_ir::DType;
use trainspec_ir::interp::EvalError;

use super::elements::{Elem, floats, ints};
use super::{GRAIN, Routine, y};
use crate::exec::parallel;

/// The position of the first element that none is greater than; NaN is passed over.
pub(super) fn argmax(r: &mut Routine<'_>) -> Result<(), EvalError> {
    let dtype = r.types[0].dtype;
    match dtype.is_float() {
        true => floats!(dtype, T => first(r, Some(T::rounded(f64::NEG_INFINITY)), |a, b| a > b)),
        false => ints!(dtype, T => first(r, None, |a: T, b: T| a > b)),
    }
    Ok(())
}

/// The position of the first element that none is less than; NaN is passed over.
pub(super) fn argmin(r: &mut Routine<'_>) -> Result<(), EvalError> {
    let dtype = r.types[0].dtype;
    match dtype.is_float() {
        true => floats!(dtype, T => first(r, Some(T::rounded(f64::INFINITY)), |a, b| a < b)),
        false => ints!(dtype, T => first(r, None, |a: T, b: T| a < b)),
    }
    Ok(())
}

/// The positions of all elements in their order; equal ones stay in theirs, and NaN comes last.
pub(super) fn argsort(r: &mut Routine<'_>) -> Result<(), EvalError> {
    r.check();
    let dtype = r.types[0].dtype;
    let descending = r.flag("descending");
    let turn = move |key: u32| if descending { !key } else { key };
    let order = move |a: Ordering| if descending { a.reverse() } else { a };
    if along(r).0 > u32::MAX as usize {
        // Positions do not fit beside a key.
        return any_length(r, order);
    }
    match dtype {
        DType::F64 | DType::I64 => return any_length(r, order),
        _ if dtype.is_float() => floats!(dtype, T => {
            use super::elements::Float;
            sort_keys(r, |x: T| {
                let x: f64 = x.widen().to_f64();
                // -0 is 0. Behind the sign, the bits of floats are in their order.
                let bits = (x as f32 + 0.0).to_bits();
                match x.is_nan() {
                    true => u32::MAX,
                    false => turn(if bits >> 31 == 1 { !bits } else { bits | 1 << 31 }),
                }
            });
        }),
        _ => ints!(dtype, T => sort_keys(r, |x: T| turn((x.to_i64() as u32) ^ 1 << 31))),
    }
    Ok(())
}

/// Lines of any type and length, by comparisons.
fn any_length(
    r: &mut Routine<'_>,
    order: impl Fn(Ordering) -> Ordering + Sync,
) -> Result<(), EvalError> {
    let dtype = r.types[0].dtype;
    match dtype.is_float() {
        true => floats!(dtype, T => {
            let (x, (_, inner)) = (r.x::<T>(0), along(r));
            sort(r, |line, at| by_comparison(line, |i, j| {
                let (a, b) = (x[at + i * inner], x[at + j * inner]);
                match a.partial_cmp(&b) {
                    Some(found) => order(found),
                    None => a.to_f64().is_nan().cmp(&b.to_f64().is_nan()),
                }
            }));
        }),
        false => ints!(dtype, T => {
            let (x, (_, inner)) = (r.x::<T>(0), along(r));
            sort(r, |line, at| by_comparison(line, |i, j| {
                order(x[at + i * inner].cmp(&x[at + j * inner]))
            }));
        }),
    }
    Ok(())
}

/// Sorts positions. They decide between equal ones, so no order has to be kept and no memory is needed.
fn by_comparison(line: &mut [i64], compare: impl Fn(usize, usize) -> Ordering) {
    for (k, place) in line.iter_mut().enumerate() {
        *place = k as i64;
    }
    line.sort_unstable_by(|i, j| compare(*i as usize, *j as usize).then(i.cmp(j)));
}

/// Sorts numbers made of a key and, below it, the position.
fn sort_keys<T: Elem>(r: &mut Routine<'_>, key: impl Fn(T) -> u32 + Sync) {
    let (x, (_, inner)) = (r.x::<T>(0), along(r));
    sort(r, |line, at| {
        for (k, place) in line.iter_mut().enumerate() {
            let key = key(x[at + k * inner]) ^ 1 << 31;
            *place = i64::from(key as i32) << 32 | k as i64;
        }
        line.sort_unstable();
        line.iter_mut()
            .for_each(|place| *place &= i64::from(u32::MAX));
    });
}

/// Of a shape: how many lines lie along the axis, and how far apart their elements are.
fn along(r: &Routine<'_>) -> (usize, usize) {
    let (shape, axis) = (&r.types[0].shape, r.size("axis"));
    (shape[axis], shape[axis + 1..].iter().product())
}

fn first<T: Elem>(r: &mut Routine<'_>, start: Option<T>, better: impl Fn(T, T) -> bool + Sync) {
    r.check();
    let (x, (n, inner)) = (r.x::<T>(0), along(r));
    let size = (GRAIN / n.max(1)).max(1);
    parallel::chunks_mut(r.pool, y::<i64>(&mut r.outputs[0]), size, |i, part| {
        for (j, y) in part.iter_mut().enumerate() {
            let line = i * size + j;
            let at = line / inner * n * inner + line % inner;
            let mut best = (0, start.unwrap_or(x[at]));
            for k in 0..n {
                let x = x[at + k * inner];
                if better(x, best.1) {
                    best = (k as i64, x);
                }
            }
            *y = best.0;
        }
    });
}

/// Calls `order` for each line with room for its positions and where it begins.
fn sort(r: &mut Routine<'_>, order: impl Fn(&mut [i64], usize) + Sync) {
    let (n, inner) = along(r);
    let y = y::<i64>(&mut r.outputs[0]);
    let lines = (GRAIN / 4 / (n * inner).max(1)).max(1);
    let (shelf, size) = (&r.scratch.i64s, lines * n * inner);
    if inner > 1 {
        shelf.prepare(r.pool.threads(), n);
    }
    parallel::chunks_mut(r.pool, y, size, |i, part| {
        for (j, lines) in part.chunks_exact_mut(n * inner).enumerate() {
            let start = i * size + j * n * inner;
            if inner == 1 {
                order(lines, start);
                continue;
            }
            shelf.lend(n, |line| {
                for column in 0..inner {
                    order(line, start + column);
                    for (k, place) in line.iter().enumerate() {
                        lines[k * inner + column] = *place;
                    }
                }
            });
        }
    });
}
