//! Products of a matrix and a vector.
//!
//! A row times a matrix is the same with the matrix turned. Where the terms of a row lie beside each other, four rows are summed at a
//! time, along the terms; where rows do, vectors of rows are.

use super::blocks::{Shared, Whole};
#[cfg(target_arch = "x86_64")]
use super::lanes::Vectors;
use super::pack::Source;
use super::{Epilogue, Factor};
use crate::exec::pool::Pool;

/// The least terms in a task, and the most tasks.
const LEAST: usize = 1 << 15;
const TASKS: usize = 8;

/// Rows of a task are a multiple of this.
const STRIP: usize = 32;

/// A matrix times a vector: `rows` sums of `terms` terms, which go to places that are `apart` from each other.
#[derive(Clone, Copy)]
struct Sums<T> {
    rows: usize,
    terms: usize,
    a: Source<T>,
    x: *const T,
    step: usize,
    y: Shared<T>,
    apart: usize,
    add: bool,
}

// SAFETY: tasks read `a` and `x` and write sums of their own.
unsafe impl<T: Factor> Sync for Sums<T> {}

/// Computes a product of one row or one column, which has terms.
///
/// # Safety
///
/// The machine has vectors, and nothing else uses the elements of `y`.
pub(super) unsafe fn run<T: Factor>(
    whole: &Whole<'_, T>,
    pool: Option<&Pool>,
    epilogue: Option<Epilogue<'_>>,
) {
    let column = whole.n == 1;
    let sums = match column {
        true => Sums {
            rows: whole.m,
            terms: whole.k,
            a: whole.a,
            x: whole.b.data,
            step: whole.b.steps.0,
            y: Shared(whole.y),
            apart: whole.row,
            add: whole.add,
        },
        false => Sums {
            rows: whole.n,
            terms: whole.k,
            a: whole.b.turned(),
            x: whole.a.data,
            step: whole.a.steps.1,
            y: Shared(whole.y),
            apart: 1,
            add: whole.add,
        },
    };
    let tasks = (sums.rows.saturating_mul(sums.terms) / LEAST).clamp(1, TASKS);
    let size = sums.rows.div_ceil(tasks).next_multiple_of(STRIP);
    let task = |i: usize| {
        let rows = i * size..sums.rows.min((i + 1) * size);
        // SAFETY: the machine has vectors; the rows are there, and each task has its own.
        unsafe { sums.part(rows.start, rows.end) };
        if let Some(epilogue) = epilogue.filter(|_| column) {
            epilogue(rows);
        }
    };
    let count = sums.rows.div_ceil(size);
    match pool {
        Some(pool) => pool.run(count, &task),
        None => (0..count).for_each(task),
    }
    if let Some(epilogue) = epilogue.filter(|_| !column) {
        epilogue(0..1);
    }
}

impl<T: Factor> Sums<T> {
    /// Computes some rows.
    ///
    /// # Safety
    ///
    /// The machine has vectors; the rows are there, and nothing else uses their sums.
    unsafe fn part(&self, first: usize, end: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            if self.a.steps.1 == 1 && self.step == 1 && self.terms >= T::WIDTH {
                return self.along(first, end);
            }
            #[cfg(target_arch = "x86_64")]
            if self.a.steps.0 == 1 {
                return self.beside(first, end);
            }
            for i in first..end {
                let mut sum = T::ZERO;
                for t in 0..self.terms {
                    sum = (*self.a.at(i, t)).times_plus(*self.x.add(t * self.step), sum);
                }
                self.write(i, sum);
            }
        }
    }

    /// # Safety
    ///
    /// The row is there, and nothing else uses its sum.
    #[inline]
    unsafe fn write(&self, row: usize, sum: T) {
        // SAFETY: the caller's promise.
        unsafe {
            let y = self.y.pointer().add(row * self.apart);
            *y = if self.add { (*y).plus(sum) } else { sum };
        }
    }

    /// Sums along the terms, which lie beside each other as the elements of the vector do.
    ///
    /// # Safety
    ///
    /// As for [`Sums::part`].
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn along(&self, first: usize, end: usize) {
        let mut row = first;
        // SAFETY: `ROWS` rows are left where so many are summed.
        unsafe {
            while row + 4 <= end {
                self.lines::<4>(row);
                row += 4;
            }
            for row in row..end {
                self.lines::<1>(row);
            }
        }
    }

    /// Sums `R` rows along the terms.
    ///
    /// # Safety
    ///
    /// As for [`Sums::along`]; the rows are there.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn lines<const R: usize>(&self, row: usize) {
        // Two sums for each row, so that one need not wait for the other.
        let (w, k) = (T::WIDTH, self.terms);
        // SAFETY: whole vectors are read where `w` terms are left, and the rest in part.
        unsafe {
            let lines: [*const T; R] = std::array::from_fn(|i| self.a.at(row + i, 0));
            let (mut even, mut odd) = ([T::Short::zero(); R], [T::Short::zero(); R]);
            let mut t = 0;
            while t + 2 * w <= k {
                let (x, z) = (
                    T::Short::load(self.x.add(t)),
                    T::Short::load(self.x.add(t + w)),
                );
                for i in 0..R {
                    even[i] = T::Short::fma(T::Short::load(lines[i].add(t)), x, even[i]);
                    odd[i] = T::Short::fma(T::Short::load(lines[i].add(t + w)), z, odd[i]);
                }
                t += 2 * w;
            }
            while t < k {
                let some = w.min(k - t);
                let x = T::Short::load_some(self.x.add(t), some);
                for i in 0..R {
                    even[i] = T::Short::fma(T::Short::load_some(lines[i].add(t), some), x, even[i]);
                }
                t += some;
            }
            for i in 0..R {
                self.write(row + i, T::sum(T::Short::add(even[i], odd[i])));
            }
        }
    }

    /// Sums vectors of rows that lie beside each other.
    ///
    /// # Safety
    ///
    /// As for [`Sums::part`].
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn beside(&self, first: usize, end: usize) {
        const V: usize = 8;
        let w = T::WIDTH;
        let mut row = first;
        while row < end {
            let some = (end - row).min(V * w);
            // SAFETY: of each vector only the rows that are there are read and written.
            unsafe {
                let mut sums = [T::Short::zero(); V];
                if some == V * w {
                    for t in 0..self.terms {
                        let x = T::Short::splat(self.x.add(t * self.step));
                        let a = self.a.at(row, t);
                        for (v, sum) in sums.iter_mut().enumerate() {
                            *sum = T::Short::fma(T::Short::load(a.add(v * w)), x, *sum);
                        }
                    }
                } else {
                    for (v, sum) in sums.iter_mut().take(some.div_ceil(w)).enumerate() {
                        let own = w.min(some - v * w);
                        for t in 0..self.terms {
                            let x = T::Short::splat(self.x.add(t * self.step));
                            let a = self.a.at(row, t).add(v * w);
                            *sum = T::Short::fma(T::Short::load_some(a, own), x, *sum);
                        }
                    }
                }
                let mut out = [T::ZERO; V * 8];
                for (v, sum) in sums.iter().enumerate() {
                    T::Short::store(out.as_mut_ptr().add(v * w), *sum);
                }
                for (i, sum) in out.iter().take(some).enumerate() {
                    self.write(row + i, *sum);
                }
            }
            row += some;
        }
    }
}
