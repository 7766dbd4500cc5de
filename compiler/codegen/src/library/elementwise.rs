//! Elementwise primitives by their scalar functions: the fallback for loops that are not fused.
//!
//! Floats are computed in f64 and rounded, integers in i64 and truncated to their width, as the interpreter does.

use std::sync::atomic::{AtomicUsize, Ordering};

use trainspec_ir::graph::Eval;
use trainspec_ir::interp::EvalError;

use super::elements::{Elem, any, floats, ints};
use super::{GRAIN, Routine, y};
use crate::exec::parallel;
use crate::exec::pool::Pool;

/// Any elementwise primitive.
pub(super) fn elementwise(r: &mut Routine<'_>) -> Result<(), EvalError> {
    r.check();
    let dtype = r.types[0].dtype;
    match &r.prim.eval {
        Eval::Float1(f) => floats!(dtype, T => map1(r, |a: T| T::rounded(f(a.to_f64())))),
        Eval::Number1(f, _) if dtype.is_float() => {
            floats!(dtype, T => map1(r, |a: T| T::rounded(f(a.to_f64()))))
        }
        Eval::Number1(_, g) => ints!(dtype, T => map1(r, |a: T| T::from_i64(g(a.to_i64())))),
        Eval::Float2(f) => float2(r, *f),
        Eval::Number2(f, _) if dtype.is_float() => float2(r, *f),
        Eval::Number2(_, g) => return ints!(dtype, T => int2::<T>(r, *g)),
        Eval::Test1(f) => floats!(dtype, T => map1(r, |a: T| f(a.to_f64()))),
        Eval::Compare(f, _) if dtype.is_float() => {
            floats!(dtype, T => map2(r, |a: T, b: T| f(a.to_f64(), b.to_f64())))
        }
        Eval::Compare(_, g) => any!(dtype, T => map2(r, |a: T, b: T| g(a.to_i64(), b.to_i64()))),
        Eval::Bool2(f) => map2(r, |a: bool, b: bool| f(a, b)),
        Eval::Tensors(_) => panic!("`{}` is no function of single elements", r.prim.name),
    }
    Ok(())
}

/// Logical not.
pub(super) fn logical_not(r: &mut Routine<'_>) -> Result<(), EvalError> {
    r.check();
    map1(r, |a: bool| !a);
    Ok(())
}

/// Select: one of two by a boolean mask.
pub(super) fn select(r: &mut Routine<'_>) -> Result<(), EvalError> {
    r.check();
    any!(r.results[0].dtype, T => {
        let (mask, yes, no) = (r.x::<bool>(0), r.x::<T>(1), r.x::<T>(2));
        map(r.pool, y::<T>(&mut r.outputs[0]), |i| {
            let all = mask[i..].iter().zip(&yes[i..]).zip(&no[i..]);
            all.map(|((mask, yes), no)| if *mask { *yes } else { *no })
        });
    });
    Ok(())
}

fn float2(r: &mut Routine<'_>, f: fn(f64, f64) -> f64) {
    floats!(r.types[0].dtype, T => {
        map2(r, |a: T, b: T| T::rounded(f(a.to_f64(), b.to_f64())))
    })
}

/// Partial binary functions of integers (division by zero); the error names the last undefined pair.
fn int2<T: Elem>(r: &mut Routine<'_>, f: fn(i64, i64) -> Option<i64>) -> Result<(), EvalError> {
    let (a, b) = (r.x::<T>(0), r.x::<T>(1));
    // One past the index of the last undefined pair.
    let bad = AtomicUsize::new(0);
    parallel::chunks_mut(r.pool, y::<T>(&mut r.outputs[0]), GRAIN, |i, part| {
        let start = i * GRAIN;
        for (j, y) in part.iter_mut().enumerate() {
            match f(a[start + j].to_i64(), b[start + j].to_i64()) {
                Some(c) => *y = T::from_i64(c),
                None => {
                    bad.fetch_max(start + j + 1, Ordering::Relaxed);
                }
            }
        }
    });
    match bad.into_inner().checked_sub(1) {
        None => Ok(()),
        Some(at) => Err(EvalError::new(format!(
            "`{}` of {} and {} has no answer in integers",
            r.prim.name,
            a[at].to_i64(),
            b[at].to_i64()
        ))),
    }
}

/// Unary map.
pub(super) fn map1<T: Elem, U: Elem>(r: &mut Routine<'_>, f: impl Fn(T) -> U + Sync) {
    let x = r.x::<T>(0);
    map(r.pool, y::<U>(&mut r.outputs[0]), |i| {
        x[i..].iter().map(|a| f(*a))
    });
}

/// Binary map.
fn map2<T: Elem, U: Elem>(r: &mut Routine<'_>, f: impl Fn(T, T) -> U + Sync) {
    let (a, b) = (r.x::<T>(0), r.x::<T>(1));
    map(r.pool, y::<U>(&mut r.outputs[0]), |i| {
        let pairs = a[i..].iter().zip(&b[i..]);
        pairs.map(|(a, b)| f(*a, *b))
    });
}

/// Writes the elements of `y`; `from` iterates from an index on.
pub(super) fn map<U: Elem, I: Iterator<Item = U>>(
    pool: &Pool,
    y: &mut [U],
    from: impl Fn(usize) -> I + Sync,
) {
    parallel::chunks_mut(pool, y, GRAIN, |i, part| {
        for (y, x) in part.iter_mut().zip(from(i * GRAIN)) {
            *y = x;
        }
    });
}
