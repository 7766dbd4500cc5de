//! GEMM (general matrix multiply) for f32 and f64: cache blocking (MC, KC, NC), packing, register-blocked microkernels (MR x NR).
//!
//! In: two matrices with any strides, and a slice for their product. Out: the product, or its sum with what was there (accumulation);
//! and a call of the epilogue for each row once it is finished. The [`microkernel`] sums in the
//! registers of the vectors that the CPU has (AVX-512, AVX2), else in a portable form, without fused multiply-add where there is none.
//!
//! How a product is blocked depends on its sizes alone, and so does the order of every sum (deterministic reduction order).

mod blocking;
mod gemv;
mod indirect;
mod lanes;
mod microkernel;
mod pack;

use std::ops::Range;

use crate::cpu::Cpu;
use crate::exec::pool::Pool;
use crate::library::{BufferPool, Pooled};
use blocking::Gemm;
pub use blocking::KC;
pub use indirect::{Indirect, multiply_indirect, pack_b, packed_b_len};

/// A float type with GEMM: f32 or f64.
pub trait GemmFloat: Pooled + lanes::Lanes {
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// self × b + c, rounded twice.
    fn multiply_add(self, b: Self, c: Self) -> Self;
    /// self × b + c, rounded once (FMA): slow where the target has no such instruction.
    fn fused_multiply_add(self, b: Self, c: Self) -> Self;
    /// self + b.
    fn plus(self, b: Self) -> Self;
}

macro_rules! gemm_float {
    ($($ty:ty),*) => {
        $(impl GemmFloat for $ty {
            const ZERO: $ty = 0.0;
            const ONE: $ty = 1.0;

            #[inline(always)]
            fn multiply_add(self, b: $ty, c: $ty) -> $ty {
                self * b + c
            }

            #[inline(always)]
            fn fused_multiply_add(self, b: $ty, c: $ty) -> $ty {
                self.mul_add(b, c)
            }

            #[inline(always)]
            fn plus(self, b: $ty) -> $ty {
                self + b
            }
        })*
    };
}

gemm_float!(f32, f64);

/// A strided matrix in a slice: the element at (i, j) is `data[i * strides.0 + j * strides.1]`.
#[derive(Debug, Clone, Copy)]
pub struct Matrix<'a, T> {
    /// Where the elements are.
    pub data: &'a [T],
    /// How many rows and columns there are.
    pub size: (usize, usize),
    /// The strides of rows and of columns, in elements.
    pub strides: (usize, usize),
}

impl<T> Matrix<'_, T> {
    /// The transpose: a view with rows and columns swapped.
    pub fn transposed(self) -> Self {
        Matrix {
            data: self.data,
            size: (self.size.1, self.size.0),
            strides: (self.strides.1, self.strides.0),
        }
    }

    fn check(&self) {
        let fits = in_bounds(self.data.len(), self.size, self.strides);
        assert!(fits, "a matrix lies in its slice");
    }
}

/// Whether all elements of a matrix lie in a slice of `length` elements.
fn in_bounds(length: usize, size: (usize, usize), strides: (usize, usize)) -> bool {
    let (Some(rows), Some(columns)) = (size.0.checked_sub(1), size.1.checked_sub(1)) else {
        return true;
    };
    let last = rows
        .checked_mul(strides.0)
        .zip(columns.checked_mul(strides.1))
        .and_then(|(down, right)| down.checked_add(right));
    last.is_some_and(|last| last < length)
}

/// The output of a GEMM: a row-major matrix whose rows are `row_stride` elements apart.
#[derive(Debug)]
pub struct Product<'a, T> {
    /// Where the elements go.
    pub data: &'a mut [T],
    /// How far apart rows are, in elements.
    pub row_stride: usize,
    /// Whether the product is added to what is there (beta = 1) or replaces it (beta = 0).
    pub accumulate: bool,
}

/// An epilogue: called with finished rows, on the thread that finished them. The rows are not touched any more after the call, so it may
/// read and write them by a pointer of its own.
pub type Epilogue<'a> = &'a (dyn Fn(Range<usize>) + Sync);

/// y = a b, or y += a b, on this thread, with the features of `cpu`.
///
/// Packed panels and partial sums lie in `buffers`, of which [`workspace_len`] elements are taken at once.
///
/// # Panics
///
/// When the sizes do not go together or a matrix does not lie in its slice.
pub fn multiply<T: GemmFloat>(
    cpu: Cpu,
    buffers: &BufferPool<T>,
    y: Product<'_, T>,
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
) {
    Gemm::new(cpu, y, a, b).run(None, buffers, None);
}

/// y = a b, or y += a b, on the threads of a pool. `epilogue` is called once for each row, in ranges.
///
/// # Panics
///
/// As [`multiply`].
pub fn multiply_on<T: GemmFloat>(
    cpu: Cpu,
    pool: &Pool,
    buffers: &BufferPool<T>,
    y: Product<'_, T>,
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
    epilogue: Option<Epilogue<'_>>,
) {
    Gemm::new(cpu, y, a, b).run(Some(pool), buffers, epilogue);
}

/// How many elements of workspace [`multiply`] takes for these operands: what has to be prepared for each thread where several multiply
/// at once.
pub fn workspace_len<T: GemmFloat>(cpu: Cpu, a: &Matrix<'_, T>, b: &Matrix<'_, T>) -> usize {
    let y = Product {
        data: &mut [],
        row_stride: b.size.1,
        accumulate: false,
    };
    Gemm::unchecked(cpu, y, *a, *b).workspace_len()
}
