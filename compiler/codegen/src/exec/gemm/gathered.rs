//! Products whose left factor lies in memory as it happens to: each row begins anywhere, and its terms come in runs that all rows
//! have at the same distance. So convolutions read their windows from the image.

use std::ops::Range;

use super::pack::{self, Source, padded, panels, width};
use super::tile::{self, MOST, Tile};
use super::{Factor, Matrix};

/// A left factor: the term `t` of run `r` of row `i` is `data[rows[i] + runs[r] + t * step]`.
#[derive(Debug, Clone, Copy)]
pub struct Gathered<'a, T> {
    /// Where the terms are.
    pub data: &'a [T],
    /// Where each row begins.
    pub rows: &'a [usize],
    /// Where each run begins, from the beginning of a row.
    pub runs: &'a [usize],
    /// How many terms each run has.
    pub run: usize,
    /// How far apart the terms of a run are.
    pub step: usize,
}

/// A good number of terms for one call: so many lines of a panel of the right factor stay in the first cache.
pub const TERMS: usize = 320;

/// How many elements a right factor has when it is packed.
pub fn packed<T: Factor>(terms: usize, columns: usize) -> usize {
    terms * padded::<T>(columns)
}

/// Packs a right factor.
///
/// # Panics
///
/// When the matrix does not lie in its slice, or `to` has another size than [`packed`] says.
pub fn pack<T: Factor>(b: Matrix<'_, T>, to: &mut [T]) {
    let (terms, columns) = b.size;
    b.check();
    assert_eq!(
        to.len(),
        packed::<T>(terms, columns),
        "room for what is packed"
    );
    let from = Source {
        data: b.data.as_ptr(),
        steps: b.steps,
    };
    // SAFETY: all elements of the matrix are in its slice, and there is room for them.
    unsafe { pack::right(from, 0..terms, 0..columns, to.as_mut_ptr()) }
}

/// `y[places[i] + j]` = Σ a[i, t] b[t, j], or `+=` the same, on this thread. `b` is packed and has as many columns.
///
/// # Panics
///
/// When there are not as many places as rows, or something lies outside its slice.
pub fn multiply_gathered<T: Factor>(
    y: &mut [T],
    places: &[usize],
    columns: usize,
    add: bool,
    a: Gathered<'_, T>,
    b: &[T],
) {
    let terms = a.runs.len() * a.run;
    assert_eq!(places.len(), a.rows.len(), "a place for each row");
    assert_eq!(b.len(), packed::<T>(terms, columns), "a line for each term");
    let greatest = |x: &[usize]| x.iter().copied().max().unwrap_or(0);
    let last = |parts: &[usize]| parts.iter().try_fold(0_usize, |sum, n| sum.checked_add(*n));
    if places.is_empty() || columns == 0 {
        return;
    }
    let end = last(&[greatest(places), columns]);
    assert!(
        end.is_some_and(|end| end <= y.len()),
        "a product lies in its slice"
    );
    if terms > 0 {
        let along = (a.run - 1).saturating_mul(a.step);
        let end = last(&[greatest(a.rows), greatest(a.runs), along]);
        assert!(
            end.is_some_and(|end| end < a.data.len()),
            "a factor lies in its slice"
        );
    }
    let (to, from) = (y.as_mut_ptr(), a.data.as_ptr());
    let mut tile = Tile {
        a: [from; MOST],
        step: a.step,
        runs: if terms == 0 { &[] } else { a.runs },
        run: a.run,
        b: b.as_ptr(),
        line: 0,
        y: [to; MOST],
        columns: 0,
        add,
    };
    let mut compute = |own: Range<usize>, first: usize| {
        tile.columns = width::<T>().min(columns - first);
        tile.line = padded::<T>(tile.columns);
        tile.b = b[first * terms..].as_ptr();
        for (i, row) in own.clone().enumerate() {
            tile.a[i] = from.wrapping_add(a.rows[row]);
            tile.y[i] = to.wrapping_add(places[row] + first);
        }
        // SAFETY: the terms and columns of all rows lie in their slices, which was checked above; `b` has a line for each term, of
        // whole vectors. Pointers of other rows are not used.
        unsafe { tile::compute(own.len(), true, &tile) };
    };
    // What is read with steps should stay in the first cache; else the panel of `b` should.
    match a.step > 1 {
        true => panels(places.len()).for_each(|own| {
            let firsts = (0..columns).step_by(width::<T>());
            firsts.for_each(|first| compute(own.clone(), first));
        }),
        false => (0..columns).step_by(width::<T>()).for_each(|first| {
            panels(places.len()).for_each(|own| compute(own, first));
        }),
    }
}
