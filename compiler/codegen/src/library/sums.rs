//! Rows of repeated positions added up.

use trainspec_ir::interp::EvalError;

use super::elements::{Elem, Float, floats, ints};
use super::rows::{out_of_range, with_sums};
use super::scratch::Repeated;
use super::{Routine, Scratch, y};
use crate::simd;

/// The different positions in the order of their first appearance, zeros behind them, the sum of the rows of each, and how many
/// there are.
pub(super) fn sum_rows(r: &mut Routine<'_>) -> Result<(), EvalError> {
    r.check();
    let (length, count) = (r.size("length"), r.x::<i64>(2)[0]);
    let (found, again) = ints!(r.types[0].dtype, I => {
        let places = r.x::<I>(0);
        let used = places.len().min(count.max(0) as usize);
        number(r, &places[..used], length)?
    });
    floats!(r.types[1].dtype, T => add::<T>(r, found, again));
    y::<i64>(&mut r.outputs[2])[0] = found as i64;
    Ok(())
}

/// How many places ahead what is known of a row is fetched, because rows are all over the memory.
const AHEAD: usize = 32;

/// Numbers the different places; `r.scratch.repeated` says where those come again that were seen before, and which they are. Gives how
/// many there are of both.
fn number<I: Elem>(
    r: &mut Routine<'_>,
    places: &[I],
    length: usize,
) -> Result<(usize, usize), EvalError> {
    let firsts = y::<i64>(&mut r.outputs[0]);
    let Scratch { repeated, seen, .. } = &mut *r.scratch;
    let (base, rows) = seen.begin(length, places.len());
    repeated.resize(places.len().max(repeated.len()), Repeated::default());
    let (mut found, mut again) = (0, 0);
    for (i, place) in places.iter().enumerate() {
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
        // Written in any case, and counted where it is new or not: no branch is guessed wrong.
        firsts[found as usize] = place;
        repeated[again] = Repeated {
            at: i as u32,
            number: *known - base,
        };
        found += u32::from(new);
        again += usize::from(!new);
    }
    firsts[found as usize..].fill(0);
    Ok((found as usize, again))
}

fn add<T: Float>(r: &mut Routine<'_>, found: usize, again: usize) {
    let rows = r.x::<T>(1);
    let width: usize = r.types[1].shape[1..].iter().product();
    let repeated = &r.scratch.repeated[..again];
    let used = found + again;
    with_sums(r.scratch, y::<T>(&mut r.outputs[1]), |sums| {
        // Rows of new places lie one after another, up to the next that is not new.
        let (mut from, mut to) = (0, 0);
        let ends = repeated
            .iter()
            .map(|again| (again.at as usize, Some(again)));
        for (end, again) in ends.chain([(used, None)]) {
            let new = &rows[from * width..end * width];
            for (sum, x) in sums[to * width..].iter_mut().zip(new) {
                *sum = x.widen();
            }
            to += end - from;
            from = end + 1;
            if let Some(again) = again {
                let sum = sums[again.number as usize * width..][..width].iter_mut();
                for (sum, x) in sum.zip(&rows[end * width..]) {
                    *sum += x.widen();
                }
            }
        }
        sums[found * width..].fill(T::default().widen());
    });
}
