//! GEMV: matrix-vector products.
//!
//! A row vector times a matrix is the GEMV of the transposed matrix. A row-major matrix is summed by dot products, four rows at a time;
//! a column-major one by columns (AXPY form), with vectors of rows as accumulators.

use super::blocking::{Gemm, SharedPtr};
#[cfg(target_arch = "x86_64")]
use super::lanes::Vectors;
use super::pack::MatrixPtr;
use super::{Epilogue, GemmFloat, microkernel};
use crate::cpu::Cpu;
use crate::exec::pool::Pool;

/// The least multiply-adds of a task, and the most tasks.
const MIN_TASK_FMAS: usize = 1 << 15;
const MAX_TASKS: usize = 8;

/// Rows of a task are a multiple of this.
const TASK_ROW_MULTIPLE: usize = 32;

/// A matrix times a vector `x` of stride `x_stride`: `rows` dot products of `terms` terms, which go to elements `y_stride` apart.
#[derive(Clone, Copy)]
struct Gemv<T> {
    cpu: Cpu,
    rows: usize,
    terms: usize,
    a: MatrixPtr<T>,
    x: *const T,
    x_stride: usize,
    y: SharedPtr<T>,
    y_stride: usize,
    accumulate: bool,
}

// SAFETY: tasks read `a` and `x` and write sums of their own.
unsafe impl<T: GemmFloat> Sync for Gemv<T> {}

/// Computes a GEMM of one row or one column whose k is not 0.
///
/// # Safety
///
/// Nothing else uses the elements of `y`.
pub(super) unsafe fn run<T: GemmFloat>(
    gemm: &Gemm<'_, T>,
    pool: Option<&Pool>,
    epilogue: Option<Epilogue<'_>>,
) {
    // The rows of the product are the rows of the GEMV only where it is a column.
    let is_column = gemm.n == 1;
    let gemv = match is_column {
        true => Gemv {
            cpu: gemm.cpu,
            rows: gemm.m,
            terms: gemm.k,
            a: gemm.a,
            x: gemm.b.data,
            x_stride: gemm.b.strides.0,
            y: SharedPtr(gemm.y),
            y_stride: gemm.row_stride,
            accumulate: gemm.accumulate,
        },
        false => Gemv {
            cpu: gemm.cpu,
            rows: gemm.n,
            terms: gemm.k,
            a: gemm.b.transposed(),
            x: gemm.a.data,
            x_stride: gemm.a.strides.1,
            y: SharedPtr(gemm.y),
            y_stride: 1,
            accumulate: gemm.accumulate,
        },
    };
    let tasks = (gemv.rows.saturating_mul(gemv.terms) / MIN_TASK_FMAS).clamp(1, MAX_TASKS);
    let size = gemv
        .rows
        .div_ceil(tasks)
        .next_multiple_of(TASK_ROW_MULTIPLE);
    let task = |i: usize| {
        let rows = i * size..gemv.rows.min((i + 1) * size);
        // SAFETY: the rows are there, and each task has its own.
        unsafe { gemv.run_rows(rows.start, rows.end) };
        if let Some(epilogue) = epilogue.filter(|_| is_column) {
            epilogue(rows);
        }
    };
    let count = gemv.rows.div_ceil(size);
    match pool {
        Some(pool) => pool.run(count, &task),
        None => (0..count).for_each(task),
    }
    if let Some(epilogue) = epilogue.filter(|_| !is_column) {
        epilogue(0..1);
    }
}

impl<T: GemmFloat> Gemv<T> {
    /// Computes some rows.
    ///
    /// # Safety
    ///
    /// The rows are there, and nothing else uses their sums.
    unsafe fn run_rows(&self, first: usize, end: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            let has_vectors = self.cpu.has_avx2_fma();
            #[cfg(target_arch = "x86_64")]
            if has_vectors && self.a.strides.1 == 1 && self.x_stride == 1 && self.terms >= T::WIDTH
            {
                return self.dot_rows(first, end);
            }
            #[cfg(target_arch = "x86_64")]
            if has_vectors && self.a.strides.0 == 1 {
                return self.axpy_columns(first, end);
            }
            match microkernel::is_portable_fused(self.cpu) {
                true => self.portable_rows(first, end, T::fused_multiply_add),
                false => self.portable_rows(first, end, T::multiply_add),
            }
        }
    }

    /// Computes some rows, one dot product after another.
    ///
    /// # Safety
    ///
    /// As for [`Gemv::run_rows`].
    #[inline(always)]
    unsafe fn portable_rows(&self, first: usize, end: usize, multiply_add: impl Fn(T, T, T) -> T) {
        // SAFETY: the caller's promise.
        unsafe {
            for i in first..end {
                let mut sum = T::ZERO;
                for t in 0..self.terms {
                    sum = multiply_add(*self.a.at(i, t), *self.x.add(t * self.x_stride), sum);
                }
                self.write(i, sum);
            }
        }
    }

    /// Stores the sum of a row, or adds it.
    ///
    /// # Safety
    ///
    /// The row is there, and nothing else uses its sum.
    #[inline]
    unsafe fn write(&self, row: usize, sum: T) {
        // SAFETY: the caller's promise.
        unsafe {
            let y = self.y.pointer().add(row * self.y_stride);
            *y = if self.accumulate { (*y).plus(sum) } else { sum };
        }
    }

    /// Dot products of contiguous rows with a contiguous vector.
    ///
    /// # Safety
    ///
    /// As for [`Gemv::run_rows`], on a CPU with AVX2 and FMA.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn dot_rows(&self, first: usize, end: usize) {
        let mut row = first;
        // SAFETY: four rows are left where four are summed.
        unsafe {
            while row + 4 <= end {
                self.dot::<4>(row);
                row += 4;
            }
            for row in row..end {
                self.dot::<1>(row);
            }
        }
    }

    /// The dot products of `R` rows.
    ///
    /// # Safety
    ///
    /// As for [`Gemv::dot_rows`]; the rows are there.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn dot<const R: usize>(&self, row: usize) {
        // Two accumulators for each row hide the latency of the FMA.
        let (w, k) = (T::WIDTH, self.terms);
        // SAFETY: full vectors are read where `w` terms are left, and the tail is masked.
        unsafe {
            let rows: [*const T; R] = std::array::from_fn(|i| self.a.at(row + i, 0));
            let (mut even, mut odd) = ([T::V256::zero(); R], [T::V256::zero(); R]);
            let mut t = 0;
            while t + 2 * w <= k {
                let (x, z) = (
                    T::V256::load(self.x.add(t)),
                    T::V256::load(self.x.add(t + w)),
                );
                for i in 0..R {
                    even[i] = T::V256::fma(T::V256::load(rows[i].add(t)), x, even[i]);
                    odd[i] = T::V256::fma(T::V256::load(rows[i].add(t + w)), z, odd[i]);
                }
                t += 2 * w;
            }
            while t < k {
                let count = w.min(k - t);
                let x = T::V256::load_masked(self.x.add(t), count);
                for i in 0..R {
                    even[i] = T::V256::fma(T::V256::load_masked(rows[i].add(t), count), x, even[i]);
                }
                t += count;
            }
            for i in 0..R {
                self.write(row + i, T::reduce_add(T::V256::add(even[i], odd[i])));
            }
        }
    }

    /// Adds column times element for each term (AXPY), in vectors of rows, which are contiguous.
    ///
    /// # Safety
    ///
    /// As for [`Gemv::run_rows`], on a CPU with AVX2 and FMA.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn axpy_columns(&self, first: usize, end: usize) {
        /// Accumulators: vectors of rows summed at a time.
        const V: usize = 8;
        let w = T::WIDTH;
        let mut row = first;
        while row < end {
            let count = (end - row).min(V * w);
            // SAFETY: of each vector only the rows that are there are read and written.
            unsafe {
                let mut sums = [T::V256::zero(); V];
                if count == V * w {
                    for t in 0..self.terms {
                        let x = T::V256::splat(self.x.add(t * self.x_stride));
                        let a = self.a.at(row, t);
                        for (v, sum) in sums.iter_mut().enumerate() {
                            *sum = T::V256::fma(T::V256::load(a.add(v * w)), x, *sum);
                        }
                    }
                } else {
                    for (v, sum) in sums.iter_mut().take(count.div_ceil(w)).enumerate() {
                        let own = w.min(count - v * w);
                        for t in 0..self.terms {
                            let x = T::V256::splat(self.x.add(t * self.x_stride));
                            let a = self.a.at(row, t).add(v * w);
                            *sum = T::V256::fma(T::V256::load_masked(a, own), x, *sum);
                        }
                    }
                }
                let mut out = [T::ZERO; V * 8];
                for (v, sum) in sums.iter().enumerate() {
                    T::V256::store(out.as_mut_ptr().add(v * w), *sum);
                }
                for (i, sum) in out.iter().take(count).enumerate() {
                    self.write(row + i, *sum);
                }
            }
            row += count;
        }
    }
}
