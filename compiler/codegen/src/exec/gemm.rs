//! Products of matrices of floats, by the crate `gemm`.

use gemm::Parallelism;

use crate::exec::pool::Pool;

/// A float whose matrices are multiplied by a library.
pub trait Factor: Copy + Send + Sync + 'static {
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
}

impl Factor for f32 {
    const ZERO: f32 = 0.0;
    const ONE: f32 = 1.0;
}

impl Factor for f64 {
    const ZERO: f64 = 0.0;
    const ONE: f64 = 1.0;
}

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

impl<T> Matrix<'_, T> {
    fn check(&self) {
        let fits = inside(self.data.len(), self.size, self.steps);
        assert!(fits, "a matrix lies in its slice");
    }
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

/// y = a b, or y += a b, on this thread.
///
/// # Panics
///
/// When the sizes do not go together or a matrix does not lie in its slice.
pub fn multiply<T: Factor>(y: Product<'_, T>, a: Matrix<'_, T>, b: Matrix<'_, T>) {
    let whole = Whole::new(y, a, b);
    // SAFETY: one call runs at a time.
    unsafe { whole.piece(0..whole.m, 0..whole.n) }
}

/// The same on the threads of a pool. How the product is cut depends on its sizes alone.
///
/// # Panics
///
/// As [`multiply`].
pub fn multiply_on<T: Factor>(pool: &Pool, y: Product<'_, T>, a: Matrix<'_, T>, b: Matrix<'_, T>) {
    let whole = Whole::new(y, a, b);
    let (m, n) = (whole.m, whole.n);
    let pieces = pieces(m, n, whole.k);
    // Pieces of whole vectors, cut along the longer side.
    let size = m.max(n).div_ceil(pieces).next_multiple_of(STRIP).max(1);
    let count = m.max(n).div_ceil(size);
    if count <= 1 {
        // SAFETY: one call runs at a time.
        return unsafe { whole.piece(0..m, 0..n) };
    }
    pool.run(count, &|i| {
        let cut = |length: usize| (i * size).min(length)..((i + 1) * size).min(length);
        let (rows, columns) = match m >= n {
            true => (cut(m), 0..n),
            false => (0..m, cut(n)),
        };
        // SAFETY: the pool calls with each number once, and the pieces of different numbers do not overlap.
        unsafe { whole.piece(rows, columns) }
    });
}

/// The least number of rows or columns of a piece; pieces are multiples of it.
const STRIP: usize = 16;

/// The most pieces of one product, and the least products of numbers in a piece.
const MOST: usize = 8;
const LEAST: usize = 1 << 20;

fn pieces(m: usize, n: usize, k: usize) -> usize {
    let work = m.saturating_mul(n).saturating_mul(k);
    (work / LEAST).clamp(1, MOST)
}

/// A product whose sizes were checked.
struct Whole<'a, T> {
    m: usize,
    n: usize,
    k: usize,
    y: *mut T,
    row: usize,
    add: bool,
    a: Matrix<'a, T>,
    b: Matrix<'a, T>,
    _y: std::marker::PhantomData<&'a mut [T]>,
}

// SAFETY: tasks only use `y` through `piece`, and `multiply_on` gives each task rows or columns of its own.
unsafe impl<T: Factor> Sync for Whole<'_, T> {}

impl<'a, T: Factor> Whole<'a, T> {
    fn new(y: Product<'a, T>, a: Matrix<'a, T>, b: Matrix<'a, T>) -> Whole<'a, T> {
        let ((m, k), (l, n)) = (a.size, b.size);
        assert_eq!(k, l, "the inner sizes of a product");
        a.check();
        b.check();
        // Rows that overlap would be written by two tasks.
        let apart = m <= 1 || y.row >= n;
        let fits = apart && inside(y.data.len(), (m, n), (y.row, 1));
        assert!(fits, "a product lies in its slice");
        Whole {
            m,
            n,
            k,
            y: y.data.as_mut_ptr(),
            row: y.row,
            add: y.add,
            a,
            b,
            _y: std::marker::PhantomData,
        }
    }

    /// Computes some rows and columns of the product.
    ///
    /// # Safety
    ///
    /// No two calls whose rows and columns overlap may run at once.
    unsafe fn piece(&self, rows: std::ops::Range<usize>, columns: std::ops::Range<usize>) {
        assert!(rows.end <= self.m && columns.end <= self.n);
        let (m, n, k) = (rows.len(), columns.len(), self.k);
        if m == 0 || n == 0 || (k == 0 && self.add) {
            return;
        }
        if k == 0 {
            for i in rows {
                // SAFETY: the row lies in `y`, and is this call's alone.
                let row = unsafe {
                    let start = self.y.add(i * self.row + columns.start);
                    std::slice::from_raw_parts_mut(start, n)
                };
                row.fill(T::ZERO);
            }
            return;
        }
        let step = |n: usize| isize::try_from(n).expect("a slice is not larger");
        let (a_steps, b_steps) = (self.a.steps, self.b.steps);
        // SAFETY: `new` has checked that all elements of the three matrices lie in their slices, and the ranges lie in the
        // matrices. The part of `y` is this call's alone; T is f32 or f64, which `gemm` knows.
        unsafe {
            gemm::gemm(
                m,
                n,
                k,
                self.y.add(rows.start * self.row + columns.start),
                1,
                step(self.row.max(1)),
                self.add,
                self.a.data.as_ptr().add(rows.start * a_steps.0),
                step(a_steps.1),
                step(a_steps.0),
                self.b.data.as_ptr().add(columns.start * b_steps.1),
                step(b_steps.1),
                step(b_steps.0),
                T::ONE,
                T::ONE,
                false,
                false,
                false,
                Parallelism::None,
            );
        }
    }
}
