//! Factors laid out in the order in which tiles read them.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
use std::ops::Range;

use super::Factor;
#[cfg(target_arch = "x86_64")]
use super::lanes::{self, Vectors};
use super::tile;

/// A matrix whose elements are known to lie in memory: the element at (i, j) is `steps.0 * i + steps.1 * j` behind `data`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source<T> {
    pub(super) data: *const T,
    pub(super) steps: (usize, usize),
}

impl<T> Source<T> {
    /// Where an element is.
    ///
    /// # Safety
    ///
    /// The matrix has the element, or one more row or column would have it.
    #[inline]
    pub(super) unsafe fn at(&self, i: usize, j: usize) -> *const T {
        // SAFETY: the caller's promise.
        unsafe { self.data.add(i * self.steps.0 + j * self.steps.1) }
    }

    pub(super) fn turned(self) -> Source<T> {
        Source {
            data: self.data,
            steps: (self.steps.1, self.steps.0),
        }
    }
}

/// Rows cut into panels of nearly equal height, because two tiles of four rows are faster than one of six and one of two.
#[inline]
pub(super) fn panels(length: usize) -> impl Iterator<Item = Range<usize>> {
    let count = length.div_ceil(tile::rows()).max(1);
    let (height, more) = (length / count, length % count);
    let mut start = 0;
    (0..count).map(move |i| {
        let end = start + height + usize::from(i < more);
        std::mem::replace(&mut start, end)..end
    })
}

/// How many columns a panel of the right factor has.
#[inline]
pub(super) fn width<T: Factor>() -> usize {
    tile::columns::<T>()
}

/// How many columns are laid out for `n` columns: whole vectors.
pub(super) fn padded<T: Factor>(n: usize) -> usize {
    n.next_multiple_of(T::WIDTH)
}

/// Packs rows of the left factor, panel after panel: for each term the elements of the panel's rows. A panel begins at its first row
/// times the number of terms.
///
/// # Safety
///
/// The matrix has all these rows and terms; `to` has room for `rows.len() * terms.len()` elements.
pub(super) unsafe fn left<T: Factor>(
    from: Source<T>,
    rows: Range<usize>,
    terms: Range<usize>,
    to: *mut T,
) {
    #[cfg(target_arch = "x86_64")]
    if lanes::present() && from.steps.0 == 1 {
        // SAFETY: the machine has the vectors, and the rest is the caller's promise.
        return unsafe { beside(from, rows, terms, to) };
    }
    for own in panels(rows.len()) {
        for t in 0..terms.len() {
            for r in 0..own.len() {
                // SAFETY: the panels before this one have taken `start * terms` elements.
                unsafe {
                    let x = *from.at(rows.start + own.start + r, terms.start + t);
                    *to.add(own.start * terms.len() + t * own.len() + r) = x;
                }
            }
        }
    }
}

/// Packs rows that lie beside each other.
///
/// # Safety
///
/// As for [`left`], on a machine that has the vectors, the first step being 1.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn beside<T: Factor>(from: Source<T>, rows: Range<usize>, terms: Range<usize>, to: *mut T) {
    /// How many terms are packed before the next panel: few enough that the lines of the first cache that two panels share stay there,
    /// even where terms are a power of two apart.
    const SOME: usize = 8;
    let k = terms.len();
    for first in (0..k).step_by(SOME) {
        let last = k.min(first + SOME);
        for own in panels(rows.len()) {
            let height = own.len();
            // SAFETY: the matrix has the rows and terms, and `to` room for them; a panel begins at its first row times the terms.
            unsafe {
                let source = from.at(rows.start + own.start, terms.start);
                let (from, to) = ((source, from.steps.1), to.add(own.start * k));
                match height.div_ceil(T::WIDTH) {
                    _ if height < T::WIDTH => {
                        let beyond = rows.len() - own.start >= T::WIDTH;
                        few(from, first..last, (to, height), k, beyond);
                    }
                    1 => several::<T, 1>(from, first..last, (to, height)),
                    2 => several::<T, 2>(from, first..last, (to, height)),
                    3 => several::<T, 3>(from, first..last, (to, height)),
                    _ => several::<T, 4>(from, first..last, (to, height)),
                }
            }
        }
    }
}

/// Packs some terms of a panel whose rows take `V` vectors. The last vector ends at the last row, and has some elements of the one
/// before it.
///
/// # Safety
///
/// The source, which is a pointer to the first term and how far apart terms are, has these terms of so many rows, and the panel room for
/// them.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn several<T: Factor, const V: usize>(
    (from, step): (*const T, usize),
    terms: Range<usize>,
    (to, height): (*mut T, usize),
) {
    for t in terms {
        // SAFETY: the vectors lie in the rows, of which there are enough for one at least.
        unsafe {
            let (from, to) = (from.add(t * step), to.add(t * height));
            for v in 0..V {
                let at = match v + 1 < V {
                    true => v * T::WIDTH,
                    false => height - T::WIDTH,
                };
                T::Short::store(to.add(at), T::Short::load(from.add(at)));
            }
        }
    }
}

/// Packs some of `k` terms of a panel whose rows take less than a vector. `beyond` says that a whole vector can be read.
///
/// # Safety
///
/// As for [`several`].
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn few<T: Factor>(
    (from, step): (*const T, usize),
    terms: Range<usize>,
    (to, height): (*mut T, usize),
    k: usize,
    beyond: bool,
) {
    for t in terms {
        // SAFETY: only elements that are there are read. A vector may reach over what it is to write, but only into the panel's next term,
        // which is written later; that of the last term does not.
        unsafe {
            let (from, to) = (from.add(t * step), to.add(t * height));
            let x = match beyond {
                true => T::Short::load(from),
                false => T::Short::load_some(from, height),
            };
            match t + 1 < k && T::WIDTH <= 2 * height {
                true => T::Short::store(to, x),
                false => T::Short::store_some(to, x, height),
            }
        }
    }
}

/// Packs columns of the right factor, panel after panel of [`width`] columns: for each term the elements of the panel's columns. The
/// last panel has whole vectors too, and zeros behind the last column. A panel begins at its first column times the number of
/// terms.
///
/// # Safety
///
/// The matrix has all these terms and columns; `to` has room for `terms.len() * padded(columns.len())` elements.
pub(super) unsafe fn right<T: Factor>(
    from: Source<T>,
    terms: Range<usize>,
    columns: Range<usize>,
    to: *mut T,
) {
    #[cfg(target_arch = "x86_64")]
    if lanes::present() {
        // SAFETY: the machine has the vectors, and the rest is the caller's promise.
        return unsafe {
            match from.steps {
                (_, 1) => lines(from, terms, columns, to),
                (1, _) => turned(from, terms, columns, to),
                _ => scattered(from, terms, columns, to),
            }
        };
    }
    // SAFETY: the caller's promise.
    unsafe { scattered(from, terms, columns, to) }
}

/// Packs from columns that lie anywhere.
///
/// # Safety
///
/// As for [`right`].
unsafe fn scattered<T: Factor>(
    from: Source<T>,
    terms: Range<usize>,
    columns: Range<usize>,
    to: *mut T,
) {
    for first in (0..columns.len()).step_by(width::<T>()) {
        let own = width::<T>().min(columns.len() - first);
        let wide = padded::<T>(own);
        for t in 0..terms.len() {
            for j in 0..wide {
                // SAFETY: columns that are not there are not read; what is written is in the panel.
                unsafe {
                    let x = match j < own {
                        true => *from.at(terms.start + t, columns.start + first + j),
                        false => T::ZERO,
                    };
                    *to.add(first * terms.len() + t * wide + j) = x;
                }
            }
        }
    }
}

/// Packs from lines whose columns lie beside each other.
///
/// # Safety
///
/// As for [`right`], on a machine that has the vectors, the second step being 1.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn lines<T: Factor>(
    from: Source<T>,
    terms: Range<usize>,
    columns: Range<usize>,
    to: *mut T,
) {
    /// How many panels are written side by side, so that lines are read in long runs.
    const SIDE: usize = 4;
    /// How many lines ahead the matrix is fetched: lines lie too far apart for the machine to find them by itself.
    const AHEAD: usize = 8;
    let (n, k) = (columns.len(), terms.len());
    let group = SIDE * width::<T>();
    for start in (0..n).step_by(group) {
        for t in 0..k {
            // SAFETY: of each line only the columns that are there are read; each vector that is written lies in its panel.
            unsafe {
                let line = from.at(terms.start + t, columns.start);
                let ahead = line.wrapping_add(AHEAD * from.steps.0 + start);
                for at in (0..group.min(n - start)).step_by(64 / size_of::<T>()) {
                    // An address that is none is no fault.
                    _mm_prefetch::<_MM_HINT_T0>(ahead.wrapping_add(at).cast());
                }
                for first in (start..n.min(start + group)).step_by(width::<T>()) {
                    let wide = padded::<T>(width::<T>().min(n - first));
                    let to = to.add(first * k + t * wide);
                    for at in (0..wide).step_by(T::WIDTH) {
                        let left = n - first - at;
                        let x = match left < T::WIDTH {
                            true => T::Short::load_some(line.add(first + at), left),
                            false => T::Short::load(line.add(first + at)),
                        };
                        T::Short::store(to.add(at), x);
                    }
                }
            }
        }
    }
}

/// Packs from columns whose terms lie beside each other.
///
/// # Safety
///
/// As for [`right`], on a machine that has the vectors, the first step being 1.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn turned<T: Factor>(
    from: Source<T>,
    terms: Range<usize>,
    columns: Range<usize>,
    to: *mut T,
) {
    let (n, k) = (columns.len(), terms.len());
    for first in (0..n).step_by(width::<T>()) {
        let wide = padded::<T>(width::<T>().min(n - first));
        for at in (0..wide).step_by(T::WIDTH) {
            let own = T::WIDTH.min(n - first - at);
            // SAFETY: only columns and terms that are there are read; what is written lies in the panel, or in a square of its own.
            unsafe {
                let from_column = from.at(terms.start, columns.start + first + at);
                let to = to.add(first * k + at);
                for t in (0..k).step_by(T::WIDTH) {
                    let (some, from_column) = (T::WIDTH.min(k - t), from_column.add(t));
                    if own == T::WIDTH && some == T::WIDTH {
                        T::turn(from_column, from.steps.1, to.add(t * wide), wide);
                        continue;
                    }
                    let (mut square, mut turned) = ([T::ZERO; 64], [T::ZERO; 64]);
                    for j in 0..own {
                        let x = T::Short::load_some(from_column.add(j * from.steps.1), some);
                        T::Short::store(square.as_mut_ptr().add(j * T::WIDTH), x);
                    }
                    T::turn(square.as_ptr(), T::WIDTH, turned.as_mut_ptr(), T::WIDTH);
                    for i in 0..some {
                        let x = T::Short::load(turned.as_ptr().add(i * T::WIDTH));
                        T::Short::store(to.add((t + i) * wide), x);
                    }
                }
            }
        }
    }
}
