//! The fallback GEMM: the crate `gemm`, for machines without AVX2 and FMA.

use std::ops::Range;

use gemm::Parallelism;

use super::blocking::Gemm;
use super::{Epilogue, GemmFloat};
use crate::exec::pool::Pool;

/// Rows or columns of a task are a multiple of this.
const TASK_MULTIPLE: usize = 16;

/// The most tasks of one GEMM, and the least multiply-adds of a task.
const MAX_TASKS: usize = 8;
const MIN_TASK_FMAS: usize = 1 << 20;

/// Computes a GEMM none of whose sizes is 0.
///
/// # Safety
///
/// Nothing else uses the elements of `y`.
pub(super) unsafe fn run<T: GemmFloat>(
    gemm: &Gemm<'_, T>,
    pool: Option<&Pool>,
    epilogue: Option<Epilogue<'_>>,
) {
    let (m, n) = (gemm.m, gemm.n);
    let work = m.saturating_mul(n).saturating_mul(gemm.k);
    let tasks = (work / MIN_TASK_FMAS).clamp(1, MAX_TASKS);
    // Tasks of full vectors, split along the longer side.
    let size = m
        .max(n)
        .div_ceil(tasks)
        .next_multiple_of(TASK_MULTIPLE)
        .max(1);
    let count = m.max(n).div_ceil(size);
    let task = |i: usize| {
        let cut = |length: usize| (i * size).min(length)..((i + 1) * size).min(length);
        let (rows, columns) = match m >= n {
            true => (cut(m), 0..n),
            false => (0..m, cut(n)),
        };
        // SAFETY: each block is computed once, and blocks do not overlap.
        unsafe { block(gemm, rows.clone(), columns) };
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
/// The product has these rows and columns, and k > 0. No two calls whose rows and columns overlap may run at once.
unsafe fn block<T: GemmFloat>(gemm: &Gemm<'_, T>, rows: Range<usize>, columns: Range<usize>) {
    let stride = |n: usize| isize::try_from(n).expect("a slice is not larger");
    let (a, b) = (gemm.a, gemm.b);
    // SAFETY: all elements of the three matrices are there, and the ranges lie in the matrices. The block of `y` is this call's alone;
    // T is f32 or f64, which `gemm` knows.
    unsafe {
        ::gemm::gemm(
            rows.len(),
            columns.len(),
            gemm.k,
            gemm.y.add(rows.start * gemm.row_stride + columns.start),
            1,
            stride(gemm.row_stride.max(1)),
            gemm.accumulate,
            a.at(rows.start, 0),
            stride(a.strides.1),
            stride(a.strides.0),
            b.at(0, columns.start),
            stride(b.strides.1),
            stride(b.strides.0),
            T::ONE,
            T::ONE,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}
