//! Indirect GEMM: the left operand is addressed through offset tables (an indirection buffer), not copied as by im2col.
//!
//! Each row begins at any offset, and its terms come in contiguous or strided runs, at offsets that all rows share. So implicit-GEMM
//! convolutions read their windows from the image.

use std::ops::Range;

use super::microkernel::{self, MAX_MR, Tile, nr};
use super::pack::{self, MatrixPtr, padded, row_panels};
use super::{GemmFloat, Matrix};
use crate::cpu::Cpu;

/// A left operand: the term `t` of run `r` of row `i` is `data[row_offsets[i] + run_offsets[r] + t * stride]`.
#[derive(Debug, Clone, Copy)]
pub struct Indirect<'a, T> {
    /// Where the terms are.
    pub data: &'a [T],
    /// Where each row begins.
    pub row_offsets: &'a [usize],
    /// Where each run begins, from the beginning of a row.
    pub run_offsets: &'a [usize],
    /// How many terms each run has.
    pub run_len: usize,
    /// How far apart the terms of a run are.
    pub stride: usize,
}

/// How many elements a right operand has when it is packed.
pub fn packed_b_len<T: GemmFloat>(terms: usize, columns: usize) -> usize {
    terms * padded::<T>(columns)
}

/// Packs a right operand into panels of NR columns.
///
/// # Panics
///
/// When the matrix does not lie in its slice, or `to` has another size than [`packed_b_len`] says.
pub fn pack_b<T: GemmFloat>(cpu: Cpu, b: Matrix<'_, T>, to: &mut [T]) {
    let (terms, columns) = b.size;
    b.check();
    assert_eq!(
        to.len(),
        packed_b_len::<T>(terms, columns),
        "the buffer has the size of the packed operand"
    );
    let from = MatrixPtr {
        data: b.data.as_ptr(),
        strides: b.strides,
    };
    // SAFETY: all elements of the matrix are in its slice, and `to` has the size of the packed panels.
    unsafe { pack::pack_b(cpu, from, 0..terms, 0..columns, to.as_mut_ptr()) }
}

/// `y[output_offsets[i] + j]` = Σ a[i, t] b[t, j], or `+=` with `accumulate`, on this thread. `b` is packed from `columns` columns, for the same `cpu`.
///
/// # Panics
///
/// When there are not as many output offsets as rows, or something lies outside its slice.
pub fn multiply_indirect<T: GemmFloat>(
    cpu: Cpu,
    y: &mut [T],
    output_offsets: &[usize],
    columns: usize,
    accumulate: bool,
    a: Indirect<'_, T>,
    b: &[T],
) {
    let terms = a.run_offsets.len() * a.run_len;
    assert_eq!(
        output_offsets.len(),
        a.row_offsets.len(),
        "an output offset for each row"
    );
    assert_eq!(
        b.len(),
        packed_b_len::<T>(terms, columns),
        "a packed row for each term"
    );
    let greatest = |x: &[usize]| x.iter().copied().max().unwrap_or(0);
    let last = |offsets: &[usize]| {
        offsets
            .iter()
            .try_fold(0_usize, |sum, n| sum.checked_add(*n))
    };
    if output_offsets.is_empty() || columns == 0 {
        return;
    }
    let end = last(&[greatest(output_offsets), columns]);
    assert!(
        end.is_some_and(|end| end <= y.len()),
        "a product lies in its slice"
    );
    if terms > 0 {
        let along = (a.run_len - 1).saturating_mul(a.stride);
        let end = last(&[greatest(a.row_offsets), greatest(a.run_offsets), along]);
        assert!(
            end.is_some_and(|end| end < a.data.len()),
            "a factor lies in its slice"
        );
    }
    let (to, from) = (y.as_mut_ptr(), a.data.as_ptr());
    let mut tile = Tile {
        a: [from; MAX_MR],
        a_stride: a.stride,
        run_offsets: if terms == 0 { &[] } else { a.run_offsets },
        run_len: a.run_len,
        b: b.as_ptr(),
        b_stride: 0,
        y: [to; MAX_MR],
        columns: 0,
        accumulate,
    };
    let mut compute = |own: Range<usize>, first: usize| {
        tile.columns = nr::<T>(cpu).min(columns - first);
        tile.b_stride = padded::<T>(tile.columns);
        tile.b = b[first * terms..].as_ptr();
        for (i, row) in own.clone().enumerate() {
            tile.a[i] = from.wrapping_add(a.row_offsets[row]);
            tile.y[i] = to.wrapping_add(output_offsets[row] + first);
        }
        // SAFETY: the terms and columns of all rows lie in their slices, which was checked above; `b` has a row for each term,
        // padded to full vectors. Pointers of other rows are not used.
        unsafe { microkernel::compute(cpu, own.len(), true, &tile) };
    };
    // A strided `a` should stay in the L1 cache; else the panel of `b` should.
    match a.stride > 1 {
        true => row_panels(cpu, output_offsets.len()).for_each(|own| {
            let firsts = (0..columns).step_by(nr::<T>(cpu));
            firsts.for_each(|first| compute(own.clone(), first));
        }),
        false => (0..columns).step_by(nr::<T>(cpu)).for_each(|first| {
            row_panels(cpu, output_offsets.len()).for_each(|own| compute(own, first));
        }),
    }
}
