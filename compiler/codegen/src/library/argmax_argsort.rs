//! Argmax, argmin and argsort (stable) along an axis.

use std::cmp::Ordering;

use trainspec_ir::DType;
use trainspec_ir::interp::EvalError;

use super::elements::{Elem, floats, ints};
use super::{GRAIN, Routine, y};
use crate::exec::parallel;

/// The index of the first maximum; NaN is ignored.
pub(super) fn argmax(r: &mut Routine<'_>) -> Result<(), EvalError> {
    arg_extremum::<true>(r)
}

/// The index of the first minimum; NaN is ignored.
pub(super) fn argmin(r: &mut Routine<'_>) -> Result<(), EvalError> {
    arg_extremum::<false>(r)
}

/// The index of the first maximum or minimum; a type parameter, so that the comparison is compiled into the loop.
fn arg_extremum<const MAX: bool>(r: &mut Routine<'_>) -> Result<(), EvalError> {
    let dtype = r.types[0].dtype;
    let infinity = if MAX {
        f64::NEG_INFINITY
    } else {
        f64::INFINITY
    };
    match dtype.is_float() {
        true => floats!(dtype, T => first(r, Some(T::rounded(infinity)), is_better::<MAX, T>)),
        false => ints!(dtype, T => first(r, None, is_better::<MAX, T>)),
    }
    Ok(())
}

/// Whether `a` is greater than `b`, or less; NaN never is.
#[inline]
pub(super) fn is_better<const MAX: bool, T: PartialOrd>(a: T, b: T) -> bool {
    if MAX { a > b } else { a < b }
}

/// The permutation that sorts the elements, stable, NaN last.
pub(super) fn argsort(r: &mut Routine<'_>) -> Result<(), EvalError> {
    r.check();
    let dtype = r.types[0].dtype;
    let descending = r.flag("descending");
    let oriented = move |key: u32| if descending { !key } else { key };
    let order = move |a: Ordering| if descending { a.reverse() } else { a };
    if along(r).0 > u32::MAX as usize {
        // Indices do not fit in the 32 bits after the key.
        return sort_by_comparison(r, order);
    }
    match dtype {
        DType::F64 | DType::I64 => return sort_by_comparison(r, order),
        _ if dtype.is_float() => floats!(dtype, T => {
            use super::elements::Float;
            sort_keys(r, |x: T| {
                let x: f64 = x.widen().to_f64();
                // -0 is 0. Below the sign bit, the bits of floats are ordered as the floats.
                let bits = (x as f32 + 0.0).to_bits();
                match x.is_nan() {
                    true => u32::MAX,
                    false => oriented(if bits >> 31 == 1 { !bits } else { bits | 1 << 31 }),
                }
            });
        }),
        _ => ints!(dtype, T => sort_keys(r, |x: T| oriented((x.to_i64() as u32) ^ 1 << 31))),
    }
    Ok(())
}

/// Comparison sort for any element type and length.
fn sort_by_comparison(
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

/// Sorts indices by a comparison; ties by index, so that an unstable in-place sort is stable.
fn by_comparison(line: &mut [i64], compare: impl Fn(usize, usize) -> Ordering) {
    for (k, index) in line.iter_mut().enumerate() {
        *index = k as i64;
    }
    line.sort_unstable_by(|i, j| compare(*i as usize, *j as usize).then(i.cmp(j)));
}

/// Sorts 64-bit integers of an order-preserving key in the high half and the index in the low half.
fn sort_keys<T: Elem>(r: &mut Routine<'_>, key: impl Fn(T) -> u32 + Sync) {
    let (x, (_, inner)) = (r.x::<T>(0), along(r));
    sort(r, |line, at| {
        for (k, index) in line.iter_mut().enumerate() {
            let key = key(x[at + k * inner]) ^ 1 << 31;
            *index = i64::from(key as i32) << 32 | k as i64;
        }
        line.sort_unstable();
        line.iter_mut()
            .for_each(|index| *index &= i64::from(u32::MAX));
    });
}

/// The size of the axis and its stride.
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

/// Calls `order` for each line along the axis with the buffer for its indices and the offset of its first element.
fn sort(r: &mut Routine<'_>, order: impl Fn(&mut [i64], usize) + Sync) {
    let (n, inner) = along(r);
    let y = y::<i64>(&mut r.outputs[0]);
    let lines = (GRAIN / 4 / (n * inner).max(1)).max(1);
    let (buffers, size) = (&r.scratch.i64s, lines * n * inner);
    if inner > 1 {
        buffers.prepare(r.pool.threads(), n);
    }
    parallel::chunks_mut(r.pool, y, size, |i, part| {
        for (j, lines) in part.chunks_exact_mut(n * inner).enumerate() {
            let start = i * size + j * n * inner;
            if inner == 1 {
                order(lines, start);
                continue;
            }
            buffers.with(n, |line| {
                for column in 0..inner {
                    order(line, start + column);
                    for (k, index) in line.iter().enumerate() {
                        lines[k * inner + column] = *index;
                    }
                }
            });
        }
    });
}
