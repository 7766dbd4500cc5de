//! The GEMM microkernel: an MR x NR register tile of the product, NR being two vectors of columns.
//!
//! Rows of the left operand are pointers that share one offset, so the same code reads packed panels, the rows or columns of an
//! unpacked matrix, and the windows of an implicit-GEMM convolution, whose terms come in separate runs.

use super::GemmFloat;
#[cfg(target_arch = "x86_64")]
use super::lanes::{Lanes, Vectors};
use crate::cpu::Cpu;

/// MR with AVX-512: two vectors of each row, two of the right operand and a broadcast element fill 32 registers.
const MR_AVX512: usize = 14;

/// MR with AVX2, which has 16 registers, and of the portable form.
const MR_AVX2: usize = 6;

/// The largest MR of any machine.
pub(super) const MAX_MR: usize = MR_AVX512;

/// NR in vectors: the most vectors of columns of a tile.
const NR_VECTORS: usize = 2;

/// MR: the most rows of a tile.
#[inline]
pub(super) fn mr(cpu: Cpu) -> usize {
    match cpu.has_avx512() {
        true => MR_AVX512,
        false => MR_AVX2,
    }
}

/// NR: the most columns of a tile.
#[inline]
pub(super) fn nr<T: GemmFloat>(cpu: Cpu) -> usize {
    #[cfg(target_arch = "x86_64")]
    if cpu.has_avx512() {
        return NR_VECTORS * T::V512::WIDTH;
    }
    NR_VECTORS * T::WIDTH
}

/// One tile of a product: y[i, j] = Σ a[i, t] b[t, j], or y[i, j] += with `accumulate`.
pub(super) struct Tile<'a, T> {
    /// Where the terms of each row begin.
    pub(super) a: [*const T; MAX_MR],
    /// How far apart the terms of a run are.
    pub(super) a_stride: usize,
    /// Where the runs of terms begin, from the pointers in `a`.
    pub(super) run_offsets: &'a [usize],
    /// How many terms each run has.
    pub(super) run_len: usize,
    /// The first row of the right operand; there is one for each term.
    pub(super) b: *const T,
    /// How far apart the rows of `b` are.
    pub(super) b_stride: usize,
    /// Where each row of the tile goes.
    pub(super) y: [*mut T; MAX_MR],
    /// How many columns there are.
    pub(super) columns: usize,
    /// Whether the sums are added to what is there.
    pub(super) accumulate: bool,
}

/// Computes a tile of `height` rows. `padded` says that rows of `b` have elements up to the next multiple of a 256-bit vector.
///
/// # Safety
///
/// `height` is from 1 to [`mr`], and that many pointers of `a` and `y` are used. All terms of these rows and of `b` can be read, and all
/// columns of the rows of `y` be written. The tile has from 1 to [`nr`] columns.
#[inline]
pub(super) unsafe fn compute<T: GemmFloat>(
    cpu: Cpu,
    height: usize,
    padded: bool,
    tile: &Tile<'_, T>,
) {
    #[cfg(target_arch = "x86_64")]
    if cpu.has_avx512() {
        // SAFETY: the machine has the vectors, and the rest is the caller's promise.
        return unsafe { avx512::compute(height, false, tile) };
    } else if cpu.has_avx2_fma() {
        // SAFETY: as above.
        return unsafe { avx2::compute(height, padded, tile) };
    }
    // One element at a time reads nothing past the last column.
    let _ = padded;
    // SAFETY: the caller's promise.
    unsafe {
        match is_portable_fused(cpu) {
            true => portable(height, tile, T::fused_multiply_add),
            false => portable(height, tile, T::multiply_add),
        }
    }
}

/// Whether the portable form uses fused multiply-add: where that is an instruction of the baseline, and `cpu` may use it.
#[inline]
pub(super) fn is_portable_fused(cpu: Cpu) -> bool {
    cfg!(target_arch = "aarch64") && cpu.has_fma()
}

/// An optimisation barrier: returns `number`, of which the compiler then knows nothing. Else loop strength reduction would give each row an
/// induction pointer of its own and increment all of them in each iteration, where one index does: a quarter of the time of a tile of
/// 14 rows.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn opaque(mut number: usize) -> usize {
    // SAFETY: there are no instructions.
    unsafe {
        std::arch::asm!("/* {0} */", inout(reg) number, options(pure, nomem, nostack, preserves_flags));
    }
    number
}

/// The microkernels for one vector width. A function with vector intrinsics has to name its target features, so the code is written
/// once and instantiated twice.
#[cfg(target_arch = "x86_64")]
macro_rules! microkernels {
    ($name:ident, $features:literal, $vectors:ident, $($mr:literal)*) => {
        mod $name {
            use super::{Lanes, Tile, Vectors, opaque};

            /// Computes a tile of `height` rows. `padded` says that rows of `b` have elements up to the next multiple of a vector.
            ///
            /// # Safety
            ///
            /// As for [`super::compute`], on a machine that has the vectors.
            #[inline]
            pub(super) unsafe fn compute<T: Lanes>(height: usize, padded: bool, tile: &Tile<'_, T>) {
                let width = T::$vectors::WIDTH;
                let masked = !padded && !tile.columns.is_multiple_of(width);
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

            /// Chooses the microkernel for a number of rows.
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
                        $($mr => vectors::<T, $mr, V, MASKED>(tile),)*
                        _ => unreachable!("a tile has at most as many rows as there are registers for"),
                    }
                }
            }

            /// The microkernel: a tile of `R` rows and `V` vectors, the last of which is masked where `MASKED`.
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
                // SAFETY: all that is read and written is what the caller promised: `run_len` terms from each run offset, a row of `b`
                // for each of them, of which the last vector is masked where it may not be there, and the columns of `y`.
                unsafe {
                    let mut sums = [[T::$vectors::zero(); V]; R];
                    let mut b = tile.b;
                    for begin in tile.run_offsets {
                        let mut at = *begin;
                        for _ in 0..tile.run_len {
                            let mut b_row = [T::$vectors::zero(); V];
                            for (v, b_vector) in b_row.iter_mut().enumerate() {
                                let b = b.add(v * width);
                                *b_vector = match MASKED && v == V - 1 {
                                    true => T::$vectors::load_masked(b, last),
                                    false => T::$vectors::load(b),
                                };
                            }
                            for (sums, a) in sums.iter_mut().zip(&tile.a) {
                                let a = T::$vectors::splat(a.add(at));
                                for (sum, b) in sums.iter_mut().zip(&b_row) {
                                    *sum = T::$vectors::fma(a, *b, *sum);
                                }
                            }
                            at = opaque(at + tile.a_stride);
                            b = b.wrapping_add(tile.b_stride);
                        }
                    }
                    for (sums, y) in sums.iter().zip(&tile.y) {
                        for (v, sum) in sums.iter().enumerate() {
                            let y = y.add(v * width);
                            if v == V - 1 && last < width {
                                let sum = match tile.accumulate {
                                    true => T::$vectors::add(T::$vectors::load_masked(y, last), *sum),
                                    false => *sum,
                                };
                                T::$vectors::store_masked(y, sum, last);
                            } else {
                                let sum = match tile.accumulate {
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
microkernels!(avx2, "avx2,fma", V256, 1 2 3 4 5 6);
#[cfg(target_arch = "x86_64")]
microkernels!(avx512, "avx512f", V512, 1 2 3 4 5 6 7 8 9 10 11 12 13 14);

/// Columns of a block of the portable microkernel.
const PORTABLE_COLUMNS: usize = 8;

/// The portable microkernel, for any machine: blocks of columns by as many rows as 16 vector registers of 128 bits hold sums for.
///
/// Each element is one sum over the terms in order, whatever block it is in.
///
/// # Safety
///
/// As for [`compute`].
#[inline(always)]
unsafe fn portable<T: GemmFloat>(
    height: usize,
    tile: &Tile<'_, T>,
    multiply_add: impl Fn(T, T, T) -> T + Copy,
) {
    let rows_per_block = if size_of::<T>() == 4 { 4 } else { 2 };
    for first in (0..tile.columns).step_by(PORTABLE_COLUMNS) {
        let columns = PORTABLE_COLUMNS.min(tile.columns - first);
        let mut row = 0;
        while row < height {
            // SAFETY: the caller's promise: the rows and columns are there.
            unsafe {
                let block = (row, first, columns);
                row += match (height - row, columns) {
                    (4.., PORTABLE_COLUMNS) if rows_per_block == 4 => {
                        portable_block::<T, 4>(tile, block, multiply_add)
                    }
                    (2.., PORTABLE_COLUMNS) => portable_block::<T, 2>(tile, block, multiply_add),
                    _ => portable_block::<T, 1>(tile, block, multiply_add),
                };
            }
        }
    }
}

/// Computes `R` rows of a block of columns, and gives `R`. Only a block of one row may have fewer columns than [`PORTABLE_COLUMNS`].
///
/// # Safety
///
/// As for [`compute`]; the tile has the rows and columns.
#[inline(always)]
unsafe fn portable_block<T: GemmFloat, const R: usize>(
    tile: &Tile<'_, T>,
    (row, first, columns): (usize, usize, usize),
    multiply_add: impl Fn(T, T, T) -> T,
) -> usize {
    // The compiler then knows how many there are, and keeps the sums in registers.
    let columns = if R > 1 { PORTABLE_COLUMNS } else { columns };
    let mut sums = [[T::ZERO; PORTABLE_COLUMNS]; R];
    let mut term = 0;
    for begin in tile.run_offsets {
        for t in 0..tile.run_len {
            // SAFETY: the caller's promise.
            let b = unsafe {
                let b = tile.b.add(term * tile.b_stride + first);
                std::slice::from_raw_parts(b, columns)
            };
            for (i, sums) in sums.iter_mut().enumerate() {
                // SAFETY: as above.
                let a = unsafe { *tile.a[row + i].add(begin + t * tile.a_stride) };
                for (sum, b) in sums.iter_mut().zip(b) {
                    *sum = multiply_add(a, *b, *sum);
                }
            }
            term += 1;
        }
    }
    for (i, sums) in sums.iter().enumerate() {
        // SAFETY: as above.
        let y = unsafe { std::slice::from_raw_parts_mut(tile.y[row + i].add(first), columns) };
        for (y, sum) in y.iter_mut().zip(sums) {
            *y = if tile.accumulate { y.plus(*sum) } else { *sum };
        }
    }
    R
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Small integers, so that sums are exact in every order.
    fn agree<T: GemmFloat + PartialEq + std::fmt::Debug>(number: fn(i32) -> T) {
        const STRIDE: usize = 33;
        let cpu = Cpu::host();
        let data: Vec<T> = (0..400).map(|i| number(i % 7 - 3)).collect();
        let b: Vec<T> = (0..40 * STRIDE as i32).map(|i| number(i % 5 - 2)).collect();
        let computed =
            |height: usize, columns: usize, accumulate: bool, how: &dyn Fn(&Tile<'_, T>)| {
                let mut y = vec![number(1); MAX_MR * STRIDE];
                how(&Tile {
                    a: std::array::from_fn(|i| data[i * 3..].as_ptr()),
                    a_stride: 2,
                    run_offsets: &[0, 9, 100],
                    run_len: 13,
                    b: b.as_ptr(),
                    b_stride: STRIDE,
                    y: std::array::from_fn(|i| y[i * STRIDE..].as_mut_ptr()),
                    columns,
                    accumulate,
                });
                // Nothing but the tile is written.
                for (i, y) in y.iter().enumerate() {
                    let outside = i / STRIDE >= height || i % STRIDE >= columns;
                    assert!(!outside || *y == number(1), "{height} x {columns}: {i}");
                }
                y
            };
        // The last term read is at 39 + 100 + 24, the rows are 33 long, and 39 of them are read.
        for height in 1..=MAX_MR {
            for columns in 1..=nr::<T>(cpu) {
                for (padded, accumulate) in [(false, false), (false, true), (true, true)] {
                    // SAFETY: all that is read and written is there, as is said above.
                    let plain = |t: &Tile<'_, T>| unsafe { portable(height, t, T::multiply_add) };
                    let plain = computed(height, columns, accumulate, &plain);
                    if height <= mr(cpu) {
                        // SAFETY: the same, and the machine has tiles of that many rows.
                        let best = |t: &Tile<'_, T>| unsafe { compute(cpu, height, padded, t) };
                        assert_eq!(plain, computed(height, columns, accumulate, &best));
                    }
                    #[cfg(target_arch = "x86_64")]
                    if cpu.has_avx2_fma() && height <= MR_AVX2 && columns <= NR_VECTORS * T::WIDTH {
                        // SAFETY: the same, and the machine has the vectors.
                        let narrow = |t: &Tile<'_, T>| unsafe { avx2::compute(height, padded, t) };
                        assert_eq!(plain, computed(height, columns, accumulate, &narrow));
                    }
                }
            }
        }
    }

    #[test]
    fn simd_and_portable_microkernels_agree() {
        if !crate::cpu::Cpu::host().has_avx2_fma() {
            println!("skipped: needs AVX2");
        }
        if !crate::cpu::Cpu::host().has_avx512() {
            println!("skipped: needs AVX-512");
        }
        agree(|n| n as f32);
        agree(f64::from);
    }
}
