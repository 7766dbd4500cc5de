//! Products of matrices of floats.
//!
//! In: two matrices, in any order of rows and columns, and room for their product. Out: the product, or its sum with what was there;
//! and a call for each of its rows once it is finished. Where the machine has AVX2 and FMA the sums are made in registers by our own
//! code ([`tile`]), else by the crate `gemm`.
//!
//! How a product is cut depends on its sizes alone, and so does the order of every sum.

mod blocks;
mod foreign;
mod gathered;
mod lanes;
mod pack;
mod tile;
mod vector;

use std::ops::Range;

use crate::exec::pool::Pool;
use crate::library::{BufferPool, Pooled};
use blocks::Whole;
pub use gathered::{Gathered, TERMS, multiply_gathered, pack, packed};

/// A float whose matrices are multiplied.
pub trait Factor: Pooled + lanes::Lanes {
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// self × b + c, rounded as is fastest.
    fn times_plus(self, b: Self, c: Self) -> Self;
    /// self + b.
    fn plus(self, b: Self) -> Self;
}

macro_rules! factor {
    ($($ty:ty),*) => {
        $(impl Factor for $ty {
            const ZERO: $ty = 0.0;
            const ONE: $ty = 1.0;

            #[inline(always)]
            fn times_plus(self, b: $ty, c: $ty) -> $ty {
                self * b + c
            }

            #[inline(always)]
            fn plus(self, b: $ty) -> $ty {
                self + b
            }
        })*
    };
}

factor!(f32, f64);

/// A matrix in a slice: the element at (i, j) is `data[i * steps.0 + j * steps.1]`.
#[derive(Debug, Clone, Copy)]
pub struct Matrix<'a, T> {
    /// Where the elements are.
    pub data: &'a [T],
    /// How many rows and columns there are.
    pub size: (usize, usize),
    /// How far apart rows and columns are.
    pub steps: (usize, usize),
}

impl<T> Matrix<'_, T> {
    /// The same with rows and columns swapped.
    pub fn turned(self) -> Self {
        Matrix {
            data: self.data,
            size: (self.size.1, self.size.0),
            steps: (self.steps.1, self.steps.0),
        }
    }

    fn check(&self) {
        let fits = inside(self.data.len(), self.size, self.steps);
        assert!(fits, "a matrix lies in its slice");
    }
}

/// Whether all elements of a matrix lie in a slice of `length` elements.
fn inside(length: usize, size: (usize, usize), steps: (usize, usize)) -> bool {
    let (Some(rows), Some(columns)) = (size.0.checked_sub(1), size.1.checked_sub(1)) else {
        return true;
    };
    let last = rows
        .checked_mul(steps.0)
        .zip(columns.checked_mul(steps.1))
        .and_then(|(down, right)| down.checked_add(right));
    last.is_some_and(|last| last < length)
}

/// Where a product goes: rows that are `row` elements apart, their columns side by side.
#[derive(Debug)]
pub struct Product<'a, T> {
    /// Where the elements go.
    pub data: &'a mut [T],
    /// How far apart rows are.
    pub row: usize,
    /// Whether the product is added to what is there.
    pub add: bool,
}

/// What is done with finished rows, by the thread that finished them. The rows are not touched any more after the call, so it may
/// read and write them by a pointer of its own.
pub type Epilogue<'a> = &'a (dyn Fn(Range<usize>) + Sync);

/// y = a b, or y += a b, on this thread.
///
/// `room` is memory to compute in, of which [`room`] elements are taken at once.
///
/// # Panics
///
/// When the sizes do not go together or a matrix does not lie in its slice.
pub fn multiply<T: Factor>(
    room: &BufferPool<T>,
    y: Product<'_, T>,
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
) {
    Whole::new(y, a, b).run(None, room, None);
}

/// The same on the threads of a pool. `then` is called once for each row, in ranges.
///
/// # Panics
///
/// As [`multiply`].
pub fn multiply_on<T: Factor>(
    pool: &Pool,
    room: &BufferPool<T>,
    y: Product<'_, T>,
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
    epilogue: Option<Epilogue<'_>>,
) {
    Whole::new(y, a, b).run(Some(pool), room, epilogue);
}

/// How many elements of room [`multiply`] takes for these factors: what has to be prepared for each thread where several multiply at
/// once.
pub fn room<T: Factor>(a: &Matrix<'_, T>, b: &Matrix<'_, T>) -> usize {
    let y = Product {
        data: &mut [],
        row: b.size.1,
        add: false,
    };
    Whole::unchecked(y, *a, *b).room()
}

/// y = a b as machines without AVX2 and FMA compute it: by the crate `gemm`.
///
/// # Panics
///
/// As [`multiply`].
pub fn multiply_by_crate<T: Factor>(
    pool: &Pool,
    y: Product<'_, T>,
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
    epilogue: Option<Epilogue<'_>>,
) {
    Whole::new(y, a, b).run_by_crate(Some(pool), epilogue);
}
