//! Products by the crate `gemm`, for machines that our own code does not know.

use std::ops::Range;

use gemm::Parallelism;

use super::blocks::Whole;
use super::{Epilogue, Factor};
use crate::exec::pool::Pool;

/// The least number of rows or columns of a piece; pieces are multiples of it.
const STRIP: usize = 16;

/// The most pieces of one product, and the least products of numbers in a piece.
const MOST: usize = 8;
const LEAST: usize = 1 << 20;

/// Computes a product that has rows, columns and terms.
///
/// # Safety
///
/// Nothing else uses the elements of `y`.
pub(super) unsafe fn run<T: Factor>(
    whole: &Whole<'_, T>,
    pool: Option<&Pool>,
    epilogue: Option<Epilogue<'_>>,
) {
    let (m, n) = (whole.m, whole.n);
    let work = m.saturating_mul(n).saturating_mul(whole.k);
    let pieces = (work / LEAST).clamp(1, MOST);
    // Pieces of whole vectors, cut along the longer side.
    let size = m.max(n).div_ceil(pieces).next_multiple_of(STRIP).max(1);
    let count = m.max(n).div_ceil(size);
    let task = |i: usize| {
        let cut = |length: usize| (i * size).min(length)..((i + 1) * size).min(length);
        let (rows, columns) = match m >= n {
            true => (cut(m), 0..n),
            false => (0..m, cut(n)),
        };
        // SAFETY: each piece is computed once, and pieces do not overlap.
        unsafe { piece(whole, rows.clone(), columns) };
        if let Some(epilogue) = epilogue.filter(|_| m >= n) {
            epilogue(rows);
        }
    };
    match pool {
        Some(pool) => pool.run(count, &task),
        None => (0..count).for_each(task),
    }
    if let Some(epilogue) = epilogue.filter(|_| m < n) {
        epilogue(0..m);
    }
}

/// Computes some rows and columns of a product.
///
/// # Safety
///
/// The product has these rows and columns, and terms. No two calls whose rows and columns overlap may run at once.
unsafe fn piece<T: Factor>(whole: &Whole<'_, T>, rows: Range<usize>, columns: Range<usize>) {
    let step = |n: usize| isize::try_from(n).expect("a slice is not larger");
    let (a, b) = (whole.a, whole.b);
    // SAFETY: all elements of the three matrices are there, and the ranges lie in the matrices. The part of `y` is this call's alone;
    // T is f32 or f64, which `gemm` knows.
    unsafe {
        gemm::gemm(
            rows.len(),
            columns.len(),
            whole.k,
            whole.y.add(rows.start * whole.row + columns.start),
            1,
            step(whole.row.max(1)),
            whole.add,
            a.at(rows.start, 0),
            step(a.steps.1),
            step(a.steps.0),
            b.at(0, columns.start),
            step(b.steps.1),
            step(b.steps.0),
            T::ONE,
            T::ONE,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}
