//! GEMM packing: operands copied into panels of MR rows or NR columns, in the order in which the microkernel reads them.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
use std::ops::Range;

use super::GemmFloat;
#[cfg(target_arch = "x86_64")]
use super::lanes::Vectors;
use super::microkernel::{mr, nr};
use crate::cpu::Cpu;

/// A strided matrix by pointer, without bounds: the element at (i, j) is at `data + strides.0 * i + strides.1 * j`.
#[derive(Debug, Clone, Copy)]
pub(super) struct MatrixPtr<T> {
    pub(super) data: *const T,
    pub(super) strides: (usize, usize),
}

impl<T> MatrixPtr<T> {
    /// Where an element is.
    ///
    /// # Safety
    ///
    /// The matrix has the element, or would have it with one more row or column.
    #[inline]
    pub(super) unsafe fn at(&self, i: usize, j: usize) -> *const T {
        // SAFETY: the caller's promise.
        unsafe { self.data.add(i * self.strides.0 + j * self.strides.1) }
    }

    /// The transpose.
    pub(super) fn transposed(self) -> MatrixPtr<T> {
        MatrixPtr {
            data: self.data,
            strides: (self.strides.1, self.strides.0),
        }
    }
}

/// Rows split into panels of at most MR rows and nearly equal height: two tiles of four rows are faster than one of six and one of two.
#[inline]
pub(super) fn row_panels(cpu: Cpu, length: usize) -> impl Iterator<Item = Range<usize>> {
    let count = length.div_ceil(mr(cpu)).max(1);
    let (height, more) = (length / count, length % count);
    let mut start = 0;
    (0..count).map(move |i| {
        let end = start + height + usize::from(i < more);
        std::mem::replace(&mut start, end)..end
    })
}

/// `n` columns padded to full 256-bit vectors.
pub(super) fn padded<T: GemmFloat>(n: usize) -> usize {
    n.next_multiple_of(T::WIDTH)
}

/// Packs rows of the left operand (A), panel after panel: for each term the elements of the panel's rows. A panel begins at its first
/// row times the number of terms.
///
/// # Safety
///
/// The matrix has all these rows and terms; `to` has `rows.len() * terms.len()` elements.
pub(super) unsafe fn pack_a<T: GemmFloat>(
    cpu: Cpu,
    from: MatrixPtr<T>,
    rows: Range<usize>,
    terms: Range<usize>,
    to: *mut T,
) {
    #[cfg(target_arch = "x86_64")]
    if cpu.has_avx2_fma() && from.strides.0 == 1 {
        // SAFETY: the machine has the vectors, and the rest is the caller's promise.
        return unsafe { pack_a_contiguous(cpu, from, rows, terms, to) };
    }
    for own in row_panels(cpu, rows.len()) {
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

/// [`pack_a`] of a column-major operand, whose rows are contiguous for each term.
///
/// # Safety
///
/// As for [`pack_a`], on a machine that has the vectors, the row stride being 1.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn pack_a_contiguous<T: GemmFloat>(
    cpu: Cpu,
    from: MatrixPtr<T>,
    rows: Range<usize>,
    terms: Range<usize>,
    to: *mut T,
) {
    /// How many terms are packed before the next panel: few enough that the L1 cache lines that two panels share stay there, even where
    /// the stride of terms is a power of two.
    const TERMS_PER_BLOCK: usize = 8;
    let k = terms.len();
    for first in (0..k).step_by(TERMS_PER_BLOCK) {
        let last = k.min(first + TERMS_PER_BLOCK);
        for own in row_panels(cpu, rows.len()) {
            let height = own.len();
            // SAFETY: the matrix has the rows and terms, and `to` is large enough for them; a panel begins at its first row times the terms.
            unsafe {
                let source = from.at(rows.start + own.start, terms.start);
                let (from, to) = ((source, from.strides.1), to.add(own.start * k));
                match height.div_ceil(T::WIDTH) {
                    _ if height < T::WIDTH => {
                        let beyond = rows.len() - own.start >= T::WIDTH;
                        pack_panel_masked(from, first..last, (to, height), k, beyond);
                    }
                    1 => pack_panel::<T, 1>(from, first..last, (to, height)),
                    2 => pack_panel::<T, 2>(from, first..last, (to, height)),
                    3 => pack_panel::<T, 3>(from, first..last, (to, height)),
                    _ => pack_panel::<T, 4>(from, first..last, (to, height)),
                }
            }
        }
    }
}

/// Packs some terms of a row panel that takes `V` vectors. The last vector ends at the last row, and overlaps the one before it.
///
/// # Safety
///
/// The source, which is a pointer to the first term and the stride of terms, has these terms of `height` rows, and so has the panel.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn pack_panel<T: GemmFloat, const V: usize>(
    (from, stride): (*const T, usize),
    terms: Range<usize>,
    (to, height): (*mut T, usize),
) {
    for t in terms {
        // SAFETY: the vectors lie in the rows, of which there are enough for one at least.
        unsafe {
            let (from, to) = (from.add(t * stride), to.add(t * height));
            for v in 0..V {
                let at = match v + 1 < V {
                    true => v * T::WIDTH,
                    false => height - T::WIDTH,
                };
                T::V256::store(to.add(at), T::V256::load(from.add(at)));
            }
        }
    }
}

/// Packs some of `k` terms of a row panel of less than a vector. `beyond` says that a full vector can be read.
///
/// # Safety
///
/// As for [`pack_panel`].
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn pack_panel_masked<T: GemmFloat>(
    (from, stride): (*const T, usize),
    terms: Range<usize>,
    (to, height): (*mut T, usize),
    k: usize,
    beyond: bool,
) {
    for t in terms {
        // SAFETY: only elements that are there are read. A full vector may be stored past the `height` elements, but only into the panel's next term,
        // which is written later; that of the last term does not.
        unsafe {
            let (from, to) = (from.add(t * stride), to.add(t * height));
            let x = match beyond {
                true => T::V256::load(from),
                false => T::V256::load_masked(from, height),
            };
            match t + 1 < k && T::WIDTH <= 2 * height {
                true => T::V256::store(to, x),
                false => T::V256::store_masked(to, x, height),
            }
        }
    }
}

/// Packs columns of the right operand (B), panel after panel of [`nr`] columns: for each term the elements of the panel's columns. The
/// last panel is padded with zeros to full vectors. A panel begins at its first column times the number of terms.
///
/// # Safety
///
/// The matrix has all these terms and columns; `to` has `terms.len() * padded(columns.len())` elements.
pub(super) unsafe fn pack_b<T: GemmFloat>(
    cpu: Cpu,
    from: MatrixPtr<T>,
    terms: Range<usize>,
    columns: Range<usize>,
    to: *mut T,
) {
    #[cfg(target_arch = "x86_64")]
    if cpu.has_avx2_fma() {
        // SAFETY: the machine has the vectors, and the rest is the caller's promise.
        return unsafe {
            match from.strides {
                (_, 1) => pack_b_row_major(cpu, from, terms, columns, to),
                (1, _) => pack_b_column_major(cpu, from, terms, columns, to),
                _ => pack_b_strided(cpu, from, terms, columns, to),
            }
        };
    }
    // SAFETY: the caller's promise.
    unsafe { pack_b_strided(cpu, from, terms, columns, to) }
}

/// [`pack_b`] with any strides, one element at a time.
///
/// # Safety
///
/// As for [`pack_b`].
unsafe fn pack_b_strided<T: GemmFloat>(
    cpu: Cpu,
    from: MatrixPtr<T>,
    terms: Range<usize>,
    columns: Range<usize>,
    to: *mut T,
) {
    for first in (0..columns.len()).step_by(nr::<T>(cpu)) {
        let own = nr::<T>(cpu).min(columns.len() - first);
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

/// [`pack_b`] of a row-major operand, whose columns are contiguous for each term.
///
/// # Safety
///
/// As for [`pack_b`], on a machine that has the vectors, the column stride being 1.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn pack_b_row_major<T: GemmFloat>(
    cpu: Cpu,
    from: MatrixPtr<T>,
    terms: Range<usize>,
    columns: Range<usize>,
    to: *mut T,
) {
    /// How many panels are written at a time, so that rows are read in long runs.
    const PANELS_PER_GROUP: usize = 4;
    /// How many rows ahead the matrix is prefetched: the stride is too large for the hardware prefetcher.
    const PREFETCH_DISTANCE_ROWS: usize = 8;
    let (n, k) = (columns.len(), terms.len());
    let group = PANELS_PER_GROUP * nr::<T>(cpu);
    for start in (0..n).step_by(group) {
        for t in 0..k {
            // SAFETY: of each row only the columns that are there are read; each vector that is written lies in its panel.
            unsafe {
                let row = from.at(terms.start + t, columns.start);
                let ahead = row.wrapping_add(PREFETCH_DISTANCE_ROWS * from.strides.0 + start);
                for at in (0..group.min(n - start)).step_by(64 / size_of::<T>()) {
                    // A prefetch of an invalid address does not fault.
                    _mm_prefetch::<_MM_HINT_T0>(ahead.wrapping_add(at).cast());
                }
                for first in (start..n.min(start + group)).step_by(nr::<T>(cpu)) {
                    let wide = padded::<T>(nr::<T>(cpu).min(n - first));
                    let to = to.add(first * k + t * wide);
                    for at in (0..wide).step_by(T::WIDTH) {
                        let left = n - first - at;
                        let x = match left < T::WIDTH {
                            true => T::V256::load_masked(row.add(first + at), left),
                            false => T::V256::load(row.add(first + at)),
                        };
                        T::V256::store(to.add(at), x);
                    }
                }
            }
        }
    }
}

/// [`pack_b`] of a column-major operand, whose terms are contiguous in each column: transposes squares in registers.
///
/// # Safety
///
/// As for [`pack_b`], on a machine that has the vectors, the row stride being 1.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn pack_b_column_major<T: GemmFloat>(
    cpu: Cpu,
    from: MatrixPtr<T>,
    terms: Range<usize>,
    columns: Range<usize>,
    to: *mut T,
) {
    let (n, k) = (columns.len(), terms.len());
    for first in (0..n).step_by(nr::<T>(cpu)) {
        let wide = padded::<T>(nr::<T>(cpu).min(n - first));
        for at in (0..wide).step_by(T::WIDTH) {
            let own = T::WIDTH.min(n - first - at);
            // SAFETY: only columns and terms that are there are read; what is written lies in the panel, or in a square of its own.
            unsafe {
                let from_column = from.at(terms.start, columns.start + first + at);
                let to = to.add(first * k + at);
                for t in (0..k).step_by(T::WIDTH) {
                    let (some, from_column) = (T::WIDTH.min(k - t), from_column.add(t));
                    if own == T::WIDTH && some == T::WIDTH {
                        T::transpose(from_column, from.strides.1, to.add(t * wide), wide);
                        continue;
                    }
                    let (mut square, mut transposed) = ([T::ZERO; 64], [T::ZERO; 64]);
                    for j in 0..own {
                        let x = T::V256::load_masked(from_column.add(j * from.strides.1), some);
                        T::V256::store(square.as_mut_ptr().add(j * T::WIDTH), x);
                    }
                    T::transpose(square.as_ptr(), T::WIDTH, transposed.as_mut_ptr(), T::WIDTH);
                    for i in 0..some {
                        let x = T::V256::load(transposed.as_ptr().add(i * T::WIDTH));
                        T::V256::store(to.add((t + i) * wide), x);
                    }
                }
            }
        }
    }
}
