//! The innermost part of a product: a few rows by two vectors of columns, summed in registers.
//!
//! Rows of the left factor are pointers that walk together, so the same code reads packed panels, rows or columns of a matrix as
//! they are, and the windows of a convolution, whose terms come in runs that do not touch.

#[cfg(target_arch = "x86_64")]
use super::lanes::{Lanes, Vectors};
use super::{Factor, lanes};

/// The most rows of a tile on any machine: with two vectors of each, and two of the right factor, they fill 32 registers.
pub(super) const MOST: usize = 14;

/// The most rows of a tile on machines with 16 registers.
const SOME: usize = 6;

/// The most vectors of columns of a tile.
const VECTORS: usize = 2;

/// The most rows of a tile on this machine.
#[inline]
pub(super) fn rows() -> usize {
    match lanes::long_present() {
        true => MOST,
        false => SOME,
    }
}

/// The most columns of a tile on this machine.
#[inline]
pub(super) fn columns<T: Factor>() -> usize {
    #[cfg(target_arch = "x86_64")]
    if lanes::long_present() {
        return VECTORS * T::Long::WIDTH;
    }
    VECTORS * T::WIDTH
}

/// One tile of a product: y[i, j] = Σ a[i, t] b[t, j], or y += the same.
pub(super) struct Tile<'a, T> {
    /// Where the terms of each row begin.
    pub(super) a: [*const T; MOST],
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
    pub(super) y: [*mut T; MOST],
    /// How many columns there are.
    pub(super) columns: usize,
    /// Whether the sums are added to what is there.
    pub(super) add: bool,
}

/// Computes a tile of so many rows. `whole` says that lines of `b` have elements up to the next multiple of a short vector.
///
/// # Safety
///
/// `height` is from 1 to [`rows`], and that many pointers of `a` and `y` are used. All terms of these rows and of `b` can be read, and all
/// columns of the rows of `y` be written. The tile has from 1 to [`columns`] columns.
#[inline]
pub(super) unsafe fn compute<T: Factor>(height: usize, whole: bool, tile: &Tile<'_, T>) {
    #[cfg(target_arch = "x86_64")]
    if lanes::long_present() {
        // SAFETY: the machine has the vectors, and the rest is the caller's promise.
        return unsafe { long::compute(height, false, tile) };
    } else if lanes::present() {
        // SAFETY: as above.
        return unsafe { short::compute(height, whole, tile) };
    }
    // One element at a time needs nothing behind the last.
    let _ = whole;
    // SAFETY: the caller's promise.
    unsafe { portable(height, tile) }
}

/// The same number, of which the compiler knows nothing. Else it would walk each row by a pointer of its own and add to all of them in
/// each round, where one index does: a quarter of the time of a tile of 14 rows.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn opaque(mut number: usize) -> usize {
    // SAFETY: there are no instructions.
    unsafe {
        std::arch::asm!("/* {0} */", inout(reg) number, options(pure, nomem, nostack, preserves_flags));
    }
    number
}

/// The code of tiles for one length of vectors. A function that uses them has to name the features of the machine that it needs, so
/// the code is written once and made twice.
#[cfg(target_arch = "x86_64")]
macro_rules! tiles {
    ($name:ident, $features:literal, $vectors:ident, $($rows:literal)*) => {
        mod $name {
            use super::{Lanes, Tile, Vectors, opaque};

            /// Computes a tile of so many rows. `whole` says that lines of `b` have elements up to the next multiple of a vector.
            ///
            /// # Safety
            ///
            /// As for [`super::compute`], on a machine that has the vectors.
            #[inline]
            pub(super) unsafe fn compute<T: Lanes>(height: usize, whole: bool, tile: &Tile<'_, T>) {
                let width = T::$vectors::WIDTH;
                let masked = !whole && !tile.columns.is_multiple_of(width);
                // SAFETY: the caller's promise.
                unsafe {
                    match (tile.columns.div_ceil(width), masked) {
                        (1, false) => by_rows::<T, 1, false>(height, tile),
                        (1, true) => by_rows::<T, 1, true>(height, tile),
                        (_, false) => by_rows::<T, 2, false>(height, tile),
                        (_, true) => by_rows::<T, 2, true>(height, tile),
                    }
                }
            }

            /// Chooses the code for a number of rows.
            ///
            /// # Safety
            ///
            /// As for [`compute`].
            #[inline]
            unsafe fn by_rows<T: Lanes, const V: usize, const MASKED: bool>(
                height: usize,
                tile: &Tile<'_, T>,
            ) {
                // SAFETY: the caller's promise.
                unsafe {
                    match height {
                        $($rows => vectors::<T, $rows, V, MASKED>(tile),)*
                        _ => unreachable!("a tile has at most as many rows as there are registers for"),
                    }
                }
            }

            /// A tile of `R` rows and `V` vectors, the last of which may be read in part.
            ///
            /// # Safety
            ///
            /// As for [`compute`]; `V` is how many vectors the columns take.
            #[target_feature(enable = $features)]
            unsafe fn vectors<T: Lanes, const R: usize, const V: usize, const MASKED: bool>(
                tile: &Tile<'_, T>,
            ) {
                let width = T::$vectors::WIDTH;
                // The columns of the last vector.
                let last = tile.columns - (V - 1) * width;
                // SAFETY: all that is read and written is what the caller promised: `run` terms from each beginning, a line of `b`
                // for each of them, of which the last vector is read in part where it may not be there, and the columns of `y`.
                unsafe {
                    let mut sums = [[T::$vectors::zero(); V]; R];
                    let mut b = tile.b;
                    for begin in tile.runs {
                        let mut at = *begin;
                        for _ in 0..tile.run {
                            let mut line = [T::$vectors::zero(); V];
                            for (v, line) in line.iter_mut().enumerate() {
                                let b = b.add(v * width);
                                *line = match MASKED && v == V - 1 {
                                    true => T::$vectors::load_some(b, last),
                                    false => T::$vectors::load(b),
                                };
                            }
                            for (sums, a) in sums.iter_mut().zip(&tile.a) {
                                let a = T::$vectors::splat(a.add(at));
                                for (sum, b) in sums.iter_mut().zip(&line) {
                                    *sum = T::$vectors::fma(a, *b, *sum);
                                }
                            }
                            at = opaque(at + tile.step);
                            b = b.wrapping_add(tile.line);
                        }
                    }
                    for (sums, y) in sums.iter().zip(&tile.y) {
                        for (v, sum) in sums.iter().enumerate() {
                            let y = y.add(v * width);
                            if v == V - 1 && last < width {
                                let sum = match tile.add {
                                    true => T::$vectors::add(T::$vectors::load_some(y, last), *sum),
                                    false => *sum,
                                };
                                T::$vectors::store_some(y, sum, last);
                            } else {
                                let sum = match tile.add {
                                    true => T::$vectors::add(T::$vectors::load(y), *sum),
                                    false => *sum,
                                };
                                T::$vectors::store(y, sum);
                            }
                        }
                    }
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
tiles!(short, "avx2,fma", Short, 1 2 3 4 5 6);
#[cfg(target_arch = "x86_64")]
tiles!(long, "avx512f", Long, 1 2 3 4 5 6 7 8 9 10 11 12 13 14);

/// A tile on any machine.
///
/// # Safety
///
/// As for [`compute`].
unsafe fn portable<T: Factor>(rows: usize, tile: &Tile<'_, T>) {
    for (a, y) in tile.a.iter().zip(&tile.y).take(rows) {
        // Two vectors of sixteen f32 are not more.
        let mut sums = [T::ZERO; 32];
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
        const APART: usize = 33;
        let data: Vec<T> = (0..400).map(|i| number(i % 7 - 3)).collect();
        let b: Vec<T> = (0..40 * APART as i32).map(|i| number(i % 5 - 2)).collect();
        let computed = |height: usize, columns: usize, add: bool, how: &dyn Fn(&Tile<'_, T>)| {
            let mut y = vec![number(1); MOST * APART];
            how(&Tile {
                a: std::array::from_fn(|i| data[i * 3..].as_ptr()),
                step: 2,
                runs: &[0, 9, 100],
                run: 13,
                b: b.as_ptr(),
                line: APART,
                y: std::array::from_fn(|i| y[i * APART..].as_mut_ptr()),
                columns,
                add,
            });
            // Nothing but the tile is written.
            for (i, y) in y.iter().enumerate() {
                let outside = i / APART >= height || i % APART >= columns;
                assert!(!outside || *y == number(1), "{height} x {columns}: {i}");
            }
            y
        };
        // The last term read is at 39 + 100 + 24, the lines are 33 long, and 39 of them are read.
        for height in 1..=MOST {
            for columns in 1..=super::columns::<T>() {
                for (whole, add) in [(false, false), (false, true), (true, true)] {
                    // SAFETY: all that is read and written is there, as is said above.
                    let plain = |t: &Tile<'_, T>| unsafe { portable(height, t) };
                    let plain = computed(height, columns, add, &plain);
                    if height <= rows() {
                        // SAFETY: the same, and the machine has tiles of so many rows.
                        let best = |t: &Tile<'_, T>| unsafe { compute(height, whole, t) };
                        assert_eq!(plain, computed(height, columns, add, &best));
                    }
                    #[cfg(target_arch = "x86_64")]
                    if lanes::present() && height <= SOME && columns <= VECTORS * T::WIDTH {
                        // SAFETY: the same, and the machine has the vectors.
                        let short = |t: &Tile<'_, T>| unsafe { short::compute(height, whole, t) };
                        assert_eq!(plain, computed(height, columns, add, &short));
                    }
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
