//! Strided copies: transpose, slice, reverse and broadcast as views (offset and strides) that are copied to a dense result.

use trainspec_ir::interp::EvalError;

use super::elements::{Elem, any};
use super::scratch::Dim;
use super::{GRAIN, Routine, y};
use crate::exec::parallel;
use crate::exec::pool::Pool;

/// A dense copy of the first operand.
pub(super) fn copy(r: &mut Routine<'_>) -> Result<(), EvalError> {
    r.check();
    any!(r.results[0].dtype, T => {
        let x = r.x::<T>(0);
        parallel::chunks_mut(r.pool, y::<T>(&mut r.outputs[0]), GRAIN, |i, part| {
            part.copy_from_slice(&x[i * GRAIN..][..part.len()]);
        });
    });
    Ok(())
}

/// Transpose: permutes dimensions.
pub(super) fn transpose(r: &mut Routine<'_>) -> Result<(), EvalError> {
    let perm = r.sizes("perm");
    copy_view(r, |dims, operand_dim| {
        perm.iter().for_each(|axis| dims.push(operand_dim(*axis)));
        0
    })
}

/// Strided slice: begin, size and stride along each dimension.
pub(super) fn slice(r: &mut Routine<'_>) -> Result<(), EvalError> {
    let (begin, size, steps) = (r.sizes("begin"), r.sizes("size"), r.sizes("stride"));
    copy_view(r, |dims, operand_dim| {
        let mut start = 0;
        for i in 0..begin.len() {
            let Dim { stride, .. } = operand_dim(i);
            start += begin[i] as isize * stride;
            // The stride of a dimension of size 1 is never used, and may overflow.
            let stride = if size[i] > 1 {
                steps[i] as isize * stride
            } else {
                0
            };
            dims.push(Dim {
                size: size[i],
                stride,
            });
        }
        start
    })
}

/// Reverses dimensions.
pub(super) fn reverse(r: &mut Routine<'_>) -> Result<(), EvalError> {
    let (axes, rank) = (r.sizes("axes"), r.types[0].rank());
    copy_view(r, |dims, operand_dim| {
        let mut start = 0;
        for i in 0..rank {
            let Dim { size, stride } = operand_dim(i);
            let reversed = axes.contains(&i);
            if reversed {
                start += (size as isize - 1) * stride;
            }
            let stride = if reversed { -stride } else { stride };
            dims.push(Dim { size, stride });
        }
        start
    })
}

/// Broadcast: stride 0 along repeated dimensions.
pub(super) fn broadcast(r: &mut Routine<'_>) -> Result<(), EvalError> {
    let (from, to) = (&r.types[0].shape, &r.results[0].shape);
    copy_view(r, |dims, operand_dim| {
        let new = to.len() - from.len();
        for (i, size) in to.iter().enumerate() {
            let stride = match i.checked_sub(new) {
                Some(i) if from[i] == *size => operand_dim(i).stride,
                _ => 0,
            };
            dims.push(Dim {
                size: *size,
                stride,
            });
        }
        0
    })
}

/// Copies a strided view of the operand: `view` pushes its dimensions, given those of the operand, and returns the offset of its first element.
fn copy_view(
    r: &mut Routine<'_>,
    view: impl FnOnce(&mut Vec<Dim>, &dyn Fn(usize) -> Dim) -> isize,
) -> Result<(), EvalError> {
    r.check();
    let shape = &r.types[0].shape;
    let operand_dim = |axis: usize| Dim {
        size: shape[axis],
        stride: shape[axis + 1..].iter().product::<usize>() as isize,
    };
    let dims = &mut r.scratch.dims;
    dims.clear();
    let start = view(dims, &operand_dim);
    collapse(dims);
    any!(r.results[0].dtype, T => {
        let x = T::of(&r.operands[0]).expect("a copy keeps the element type");
        strided_copy(r.pool, x, start, dims, y::<T>(&mut r.outputs[0]));
    });
    Ok(())
}

/// Collapses a view: drops dimensions of size 1 and merges adjacent ones that are contiguous.
pub(super) fn collapse(dims: &mut Vec<Dim>) {
    dims.retain(|s| s.size != 1);
    let mut last = 0;
    for i in 1..dims.len() {
        let (outer, inner) = (dims[last], dims[i]);
        match outer.stride == inner.stride * inner.size as isize {
            true => {
                dims[last] = Dim {
                    size: outer.size * inner.size,
                    stride: inner.stride,
                };
            }
            false => {
                last += 1;
                dims[last] = inner;
            }
        }
    }
    dims.truncate(last + 1);
}

/// The offset of the element with the row-major index `i` of these dimensions.
#[inline]
pub(super) fn offset_of(dims: &[Dim], mut i: usize) -> isize {
    match dims {
        [] => 0,
        [only] => i as isize * only.stride,
        [first, rest @ ..] => {
            let mut at = 0;
            for s in rest.iter().rev() {
                at += (i % s.size) as isize * s.stride;
                i /= s.size;
            }
            at + i as isize * first.stride
        }
    }
}

/// Rows of a block of a blocked transpose, where rows are adjacent in the operand.
const TRANSPOSE_BLOCK_ROWS: usize = 16;

/// Copies a strided view to a dense result.
fn strided_copy<T: Elem>(pool: &Pool, x: &[T], start: isize, dims: &[Dim], y: &mut [T]) {
    let Some((last, outer)) = dims.split_last() else {
        y.iter_mut().for_each(|y| *y = x[start as usize]);
        return;
    };
    let n = last.size;
    // A transpose: elements of a row are strided, but rows are adjacent.
    let adjacent = match outer.last() {
        Some(rows) if rows.stride == 1 && last.stride != 1 => rows.size,
        _ => 1,
    };
    let size = match (GRAIN / n.max(1)).max(TRANSPOSE_BLOCK_ROWS.min(adjacent)) {
        1 if n > GRAIN => GRAIN,
        lines => lines * n,
    };
    parallel::chunks_mut(pool, y, size, |i, part| {
        let (mut row, mut column) = (i * size / n, i * size % n);
        let mut rest = part;
        while !rest.is_empty() {
            let at = start + offset_of(outer, row) + column as isize * last.stride;
            let block = (adjacent - row % adjacent)
                .min(TRANSPOSE_BLOCK_ROWS)
                .min(rest.len() / n);
            if column == 0 && block > 1 {
                let (rows, after) = rest.split_at_mut(block * n);
                for j in 0..n {
                    let from = &x[(at + j as isize * last.stride) as usize..][..block];
                    for (k, x) in from.iter().enumerate() {
                        rows[k * n + j] = *x;
                    }
                }
                rest = after;
                row += block;
                continue;
            }
            let length = (n - column).min(rest.len());
            let (line, after) = rest.split_at_mut(length);
            match last.stride {
                0 => line.fill(x[at as usize]),
                1 => line.copy_from_slice(&x[at as usize..][..length]),
                stride => {
                    for (j, y) in line.iter_mut().enumerate() {
                        *y = x[(at + j as isize * stride) as usize];
                    }
                }
            }
            rest = after;
            row += 1;
            column = 0;
        }
    });
}
