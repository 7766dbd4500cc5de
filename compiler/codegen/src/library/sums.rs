//! Rows of repeated positions added up.

use trainspec_ir::interp::Fault;

use super::elements::{Float, floats};
use super::rows::{row_numbers, with_sums};
use super::{Routine, Scratch, y};
use crate::simd;

/// The different positions in the order of their first appearance, zeros behind them, the sum of the rows of each, and how many
/// there are.
pub(super) fn sum_rows(r: &mut Routine<'_>) -> Result<(), Fault> {
    r.check();
    let (length, count) = (r.size("length"), r.x::<i64>(2)[0]);
    row_numbers(
        &r.operands[0],
        length,
        count.max(0) as usize,
        &mut r.scratch.places,
    )?;
    let places = std::mem::take(&mut r.scratch.places);
    let found = number(r, &places, length);
    floats!(r.types[1].dtype, T => add::<T>(r, &places, found));
    r.scratch.places = places;
    y::<i64>(&mut r.outputs[2])[0] = found as i64;
    Ok(())
}

/// How many places ahead what is known of a row is fetched, because rows are all over the memory.
const AHEAD: usize = 16;

/// Numbers the different places; `r.scratch.numbers` says which each is. Gives how many there are.
fn number(r: &mut Routine<'_>, places: &[usize], length: usize) -> usize {
    let firsts = y::<i64>(&mut r.outputs[0]);
    let Scratch { numbers, seen, .. } = &mut *r.scratch;
    numbers.clear();
    let base = seen.begin(length, places.len());
    let mut found = 0;
    for (i, place) in places.iter().enumerate() {
        if let Some(later) = places.get(i + AHEAD) {
            simd::prefetch(&seen.rows, *later);
        }
        let known = &mut seen.rows[*place];
        if *known < base {
            *known = base + found;
            firsts[found as usize] = *place as i64;
            found += 1;
        }
        numbers.push(*known - base);
    }
    firsts[found as usize..].fill(0);
    found as usize
}

fn add<T: Float>(r: &mut Routine<'_>, places: &[usize], found: usize) {
    let rows = r.x::<T>(1);
    let width: usize = r.types[1].shape[1..].iter().product();
    let sums = y::<T>(&mut r.outputs[1]);
    if found == places.len() {
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
