//! Rows of repeated positions added up.

use trainspec_ir::interp::Fault;

use super::elements::{Elem, Float, floats, ints};
use super::rows::{out_of_range, with_sums};
use super::{Routine, Scratch, y};
use crate::simd;

/// The different positions in the order of their first appearance, zeros behind them, the sum of the rows of each, and how many
/// there are.
pub(super) fn sum_rows(r: &mut Routine<'_>) -> Result<(), Fault> {
    r.check();
    let (length, count) = (r.size("length"), r.x::<i64>(2)[0]);
    let found = ints!(r.types[0].dtype, I => {
        let places = r.x::<I>(0);
        let used = places.len().min(count.max(0) as usize);
        number(r, &places[..used], length)?
    });
    floats!(r.types[1].dtype, T => add::<T>(r, found));
    y::<i64>(&mut r.outputs[2])[0] = found as i64;
    Ok(())
}

/// How many places ahead what is known of a row is fetched, because rows are all over the memory.
const AHEAD: usize = 16;

/// Numbers the different places; `r.scratch.numbers` says which each is. Gives how many there are.
fn number<I: Elem>(r: &mut Routine<'_>, places: &[I], length: usize) -> Result<usize, Fault> {
    let firsts = y::<i64>(&mut r.outputs[0]);
    let Scratch { numbers, seen, .. } = &mut *r.scratch;
    let base = seen.begin(length, places.len());
    let rows = &mut seen.rows[..length];
    numbers.resize(places.len(), 0);
    let mut found = 0;
    for (i, (place, number)) in places.iter().zip(numbers).enumerate() {
        if let Some(later) = places.get(i + AHEAD) {
            simd::prefetch(rows, later.to_i64() as usize);
        }
        let place = place.to_i64();
        // A negative place is far behind the last.
        let Some(known) = rows.get_mut(place as usize) else {
            return Err(out_of_range(place, length));
        };
        let new = *known < base;
        if new {
            *known = base + found;
        }
        // Written in any case, and counted where it is new: no branch is guessed wrong.
        firsts[found as usize] = place;
        found += u32::from(new);
        *number = *known - base;
    }
    firsts[found as usize..].fill(0);
    Ok(found as usize)
}

fn add<T: Float>(r: &mut Routine<'_>, found: usize) {
    let rows = r.x::<T>(1);
    let width: usize = r.types[1].shape[1..].iter().product();
    let sums = y::<T>(&mut r.outputs[1]);
    if found == r.scratch.numbers.len() {
        // Each is alone.
        sums[..found * width].copy_from_slice(&rows[..found * width]);
        sums[found * width..].fill(T::default());
        return;
    }
    let numbers = &r.scratch.numbers;
    with_sums(r.scratch, sums, |sums| {
        sums.fill(T::default().widen());
        for (number, row) in numbers.iter().zip(rows.chunks_exact(width.max(1))) {
            let sum = &mut sums[*number as usize * width..][..width];
            for (sum, x) in sum.iter_mut().zip(row) {
                *sum += x.widen();
            }
        }
    });
}
