//! Deduplication of IndexedSlices (sparse gradients): sums the rows of equal indices.

use trainspec_ir::interp::EvalError;

use super::elements::{Elem, Float, floats, ints};
use super::gather_scatter::{out_of_range, with_accumulators};
use super::scratch::Duplicate;
use super::{Routine, Scratch, y};
use crate::exec::allocate;
use crate::simd;

/// The unique indices in the order of first occurrence, zero-padded, the sum of the rows of each, and their count.
pub(super) fn sum_rows(r: &mut Routine<'_>) -> Result<(), EvalError> {
    r.check();
    let (length, count) = (r.size("length"), r.x::<i64>(2)[0]);
    let (unique, repeats) = ints!(r.types[0].dtype, I => {
        let indices = r.x::<I>(0);
        let used = indices.len().min(count.max(0) as usize);
        number(r, &indices[..used], length)?
    });
    floats!(r.types[1].dtype, T => add::<T>(r, unique, repeats));
    y::<i64>(&mut r.outputs[2])[0] = unique as i64;
    Ok(())
}

/// The prefetch distance in indices: accesses to the row numbering are random.
const PREFETCH_DISTANCE_INDICES: usize = 32;

/// Numbers the unique indices; `r.scratch.duplicates` lists the repeated ones with their number. Gives the counts of both.
fn number<I: Elem>(
    r: &mut Routine<'_>,
    indices: &[I],
    length: usize,
) -> Result<(usize, usize), EvalError> {
    let firsts = y::<i64>(&mut r.outputs[0]);
    let Scratch {
        duplicates,
        numbering,
        ..
    } = &mut *r.scratch;
    let (base, rows) = numbering.begin(length, indices.len());
    allocate::grow(duplicates, indices.len(), Duplicate::default());
    let (mut unique, mut repeats) = (0, 0);
    for (i, index) in indices.iter().enumerate() {
        if let Some(later) = indices.get(i + PREFETCH_DISTANCE_INDICES) {
            simd::prefetch(rows, later.to_i64() as usize);
        }
        let index = index.to_i64();
        // A negative index is far beyond the last row.
        let Some(known) = rows.get_mut(index as usize) else {
            return Err(out_of_range(index, length));
        };
        let new = *known < base;
        if new {
            *known = base + unique;
        }
        // Branch-free: written in any case, and counted by whether it is new.
        firsts[unique as usize] = index;
        duplicates[repeats] = Duplicate {
            at: i as u32,
            number: *known - base,
        };
        unique += u32::from(new);
        repeats += usize::from(!new);
    }
    firsts[unique as usize..].fill(0);
    Ok((unique as usize, repeats))
}

fn add<T: Float>(r: &mut Routine<'_>, unique: usize, repeats: usize) {
    let rows = r.x::<T>(1);
    let width: usize = r.types[1].shape[1..].iter().product();
    let duplicates = &r.scratch.duplicates[..repeats];
    let used = unique + repeats;
    with_accumulators(r.scratch, y::<T>(&mut r.outputs[1]), |sums| {
        // Rows of first occurrences are copied in runs, up to the next duplicate.
        let (mut from, mut to) = (0, 0);
        let ends = duplicates
            .iter()
            .map(|repeats| (repeats.at as usize, Some(repeats)));
        for (end, repeats) in ends.chain([(used, None)]) {
            let new = &rows[from * width..end * width];
            for (sum, x) in sums[to * width..].iter_mut().zip(new) {
                *sum = x.widen();
            }
            to += end - from;
            from = end + 1;
            if let Some(repeats) = repeats {
                let sum = sums[repeats.number as usize * width..][..width].iter_mut();
                for (sum, x) in sum.zip(&rows[end * width..]) {
                    *sum += x.widen();
                }
            }
        }
        sums[unique * width..].fill(T::default().widen());
    });
}
