//! The innermost part of a product: a few rows by two vectors of columns, summed in registers.
//!
//! Rows of the left factor are pointers that walk together, so the same code reads packed panels, rows or columns of a matrix as
//! they are, and the windows of a convolution, whose terms come in runs that do not touch.

use super::Factor;
#[cfg(target_arch = "x86_64")]
use super::lanes::{self, Lanes};

/// The most rows of a tile.
pub(super) const ROWS: usize = 6;

/// The most vectors of columns of a tile.
pub(super) const VECTORS: usize = 2;

/// One tile of a product: y[i, j] = Σ a[i, t] b[t, j], or y += the same.
pub(super) struct Tile<'a, T> {
    /// Where the terms of each row begin.
    pub(super) a: [*const T; ROWS],
    /// How far apart the terms of a run are.
    pub(super) step: usize,
    /// Where the runs of terms begin, from the pointers in `a`.
    pub(super) runs: &'a [usize],
    /// How many terms each run has.
    pub(super) run: usize,
    /// The first line of the right factor; there is one for each term.
    pub(super) b: *const T,
    /// How far apart the lines are.
    pub(super) line: usize,
    /// Where each row of the tile goes.
    pub(super) y: [*mut T; ROWS],
    /// How many columns there are.
    pub(super) columns: usize,
    /// Whether the sums are added to what is there.
    pub(super) add: bool,
}

/// Computes a tile of so many rows. `whole` says that lines of `b` have elements up to the next multiple of a vector.
///
/// # Safety
///
/// `rows` is from 1 to [`ROWS`], and that many pointers of `a` and `y` are used. All terms of these rows and of `b` can be read, and all
/// columns of the rows of `y` be written. `columns` is from 1 to `VECTORS * T::WIDTH`.
#[inline]
pub(super) unsafe fn compute<T: Factor>(rows: usize, whole: bool, tile: &Tile<'_, T>) {
    #[cfg(target_arch = "x86_64")]
    if lanes::present() {
        let vectors = tile.columns.div_ceil(T::WIDTH);
        let masked = !whole && !tile.columns.is_multiple_of(T::WIDTH);
        // SAFETY: the machine has the vectors, and the rest is the caller's promise.
        return unsafe {
            match (vectors, masked) {
                (1, false) => by_rows::<T, 1, false>(rows, tile),
                (1, true) => by_rows::<T, 1, true>(rows, tile),
                (_, false) => by_rows::<T, 2, false>(rows, tile),
                (_, true) => by_rows::<T, 2, true>(rows, tile),
            }
        };
    }
    // One element at a time needs nothing behind the last.
    let _ = whole;
    // SAFETY: the caller's promise.
    unsafe { portable(rows, tile) }
}

/// Chooses the code for a number of rows.
///
/// # Safety
///
/// As for [`compute`], on a machine that has the vectors.
#[cfg(target_arch = "x86_64")]
#[inline]
unsafe fn by_rows<T: Lanes, const V: usize, const MASKED: bool>(rows: usize, tile: &Tile<'_, T>) {
    // SAFETY: the caller's promise.
    unsafe {
        match rows {
            1 => vectors::<T, 1, V, MASKED>(tile),
            2 => vectors::<T, 2, V, MASKED>(tile),
            3 => vectors::<T, 3, V, MASKED>(tile),
            4 => vectors::<T, 4, V, MASKED>(tile),
            5 => vectors::<T, 5, V, MASKED>(tile),
            _ => vectors::<T, 6, V, MASKED>(tile),
        }
    }
}

/// A tile of `R` rows and `V` vectors, the last of which may be read in part.
///
/// # Safety
///
/// As for [`compute`], on a machine that has the vectors; `V` is how many vectors the columns take.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn vectors<T: Lanes, const R: usize, const V: usize, const MASKED: bool>(
    tile: &Tile<'_, T>,
) {
    // The columns of the last vector.
    let last = tile.columns - (V - 1) * T::WIDTH;
    // SAFETY: all that is read and written is what the caller promised: `run` terms from each beginning, a line of `b` for each of
    // them, of which the last vector is read in part where it may not be there, and the columns of `y`.
    unsafe {
        let mut sums = [[T::zero(); V]; R];
        let mut b = tile.b;
        for begin in tile.runs {
            let mut at = *begin;
            for _ in 0..tile.run {
                let mut line = [T::zero(); V];
                for (v, line) in line.iter_mut().enumerate() {
                    let b = b.add(v * T::WIDTH);
                    *line = match MASKED && v == V - 1 {
                        true => T::load_some(b, last),
                        false => T::load(b),
                    };
                }
                for (sums, a) in sums.iter_mut().zip(&tile.a) {
                    let a = T::splat(a.add(at));
                    for (sum, b) in sums.iter_mut().zip(&line) {
                        *sum = T::fma(a, *b, *sum);
                    }
                }
                at += tile.step;
                b = b.wrapping_add(tile.line);
            }
        }
        for (sums, y) in sums.iter().zip(&tile.y) {
            for (v, sum) in sums.iter().enumerate() {
                let y = y.add(v * T::WIDTH);
                if v == V - 1 && last < T::WIDTH {
                    let sum = match tile.add {
                        true => T::add(T::load_some(y, last), *sum),
                        false => *sum,
                    };
                    T::store_some(y, sum, last);
                } else {
                    let sum = match tile.add {
                        true => T::add(T::load(y), *sum),
                        false => *sum,
                    };
                    T::store(y, sum);
                }
            }
        }
    }
}

/// A tile on any machine.
///
/// # Safety
///
/// As for [`compute`].
unsafe fn portable<T: Factor>(rows: usize, tile: &Tile<'_, T>) {
    for (a, y) in tile.a.iter().zip(&tile.y).take(rows) {
        // Two vectors of four f64 or eight f32 are not more.
        let mut sums = [T::ZERO; 16];
        let sums = &mut sums[..tile.columns];
        let mut term = 0;
        for begin in tile.runs {
            for t in 0..tile.run {
                // SAFETY: the caller's promise.
                let (a, b) = unsafe {
                    let line = tile.b.add(term * tile.line);
                    let b = std::slice::from_raw_parts(line, tile.columns);
                    (*a.add(begin + t * tile.step), b)
                };
                for (sum, b) in sums.iter_mut().zip(b) {
                    *sum = a.times_plus(*b, *sum);
                }
                term += 1;
            }
        }
        // SAFETY: the caller's promise.
        let y = unsafe { std::slice::from_raw_parts_mut(*y, tile.columns) };
        for (y, sum) in y.iter_mut().zip(sums) {
            *y = if tile.add { y.plus(*sum) } else { *sum };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Small whole numbers, so that every order of sums is exact.
    fn agree<T: Factor + PartialEq + std::fmt::Debug>(number: fn(i32) -> T) {
        let data: Vec<T> = (0..400).map(|i| number(i % 7 - 3)).collect();
        let b: Vec<T> = (0..40 * 17).map(|i| number(i % 5 - 2)).collect();
        for rows in 1..=ROWS {
            for columns in 1..=VECTORS * T::WIDTH {
                for (whole, add) in [(false, false), (false, true), (true, true)] {
                    let mut results = Vec::new();
                    for wide in [false, true] {
                        let mut y = vec![number(1); ROWS * 17];
                        let tile = Tile {
                            a: std::array::from_fn(|i| data[i * 3..].as_ptr()),
                            step: 2,
                            runs: &[0, 9, 100],
                            run: 13,
                            b: b.as_ptr(),
                            line: 17,
                            y: std::array::from_fn(|i| y[i * 17..].as_mut_ptr()),
                            columns,
                            add,
                        };
                        // SAFETY: the last term read is at 15 + 100 + 24, the lines are 17 long, and 39 of them are read.
                        unsafe {
                            match wide {
                                true => compute(rows, whole, &tile),
                                false => portable(rows, &tile),
                            }
                        }
                        results.push(y);
                    }
                    assert_eq!(results[0], results[1], "{rows} x {columns}");
                }
            }
        }
    }

    #[test]
    fn vectors_and_single_elements_agree() {
        agree(|n| n as f32);
        agree(f64::from);
    }
}
