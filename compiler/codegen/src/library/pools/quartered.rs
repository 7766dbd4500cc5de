//! Pools of two by two elements that do not overlap, which most are: row after row, some channels at a time.
//!
//! What is below a last pair of rows, or beside a last pair of columns, belongs to no window.

use std::ops::Range;

use super::{Pooling, above};
use crate::exec::multiversion::{Work, dispatch};
use crate::exec::parallel;
use crate::library::elements::{Elem, Float};
use crate::library::windows::Along;
use crate::library::{GRAIN, Routine, y};

/// How many channels are computed together.
const LANES: usize = 8;

impl Pooling {
    /// Whether each place has two by two elements of its own.
    pub(super) fn is_quartered(&self) -> bool {
        let halved = |a: &Along| {
            let own = a.kernel == 2 && a.stride == 2 && a.before == 0;
            own && a.places <= a.input / 2
        };
        halved(&self.down) && halved(&self.right)
    }

    /// The largest of each four.
    pub(super) fn largest_of_four<T: Elem>(
        &self,
        r: &mut Routine<'_>,
        x: &[T],
        larger: impl Fn(T, T) -> bool + Sync,
    ) {
        let y = y::<T>(&mut r.outputs[0]);
        if y.is_empty() {
            return;
        }
        let (c, row, image) = (self.x[3], self.row(), self.sizes().0);
        let made = self.right.places * c;
        let rows = (GRAIN / (4 * made)).max(1);
        parallel::chunks_mut(r.pool, y, rows * made, |i, part| {
            for (j, y) in part.chunks_exact_mut(made).enumerate() {
                let (number, place) = {
                    let all = i * rows + j;
                    (all / self.down.places, all % self.down.places)
                };
                let x = &x[number * image + 2 * place * row..][..2 * row];
                dispatch(Forward {
                    c,
                    x: x.split_at(row),
                    y,
                    larger: &larger,
                });
            }
        });
    }

    /// What flows back to some rows of an image, which begin at a pair.
    pub(super) fn flow_to_one_of_four<T: Float>(
        &self,
        rows: Range<usize>,
        x: &[T],
        dy: &[T],
        sums: &mut [T::Sum],
    ) {
        let (c, row) = (self.x[3], self.row());
        let made = self.right.places * c;
        for (i, sums) in sums.chunks_mut(2 * row).enumerate() {
            let place = rows.start / 2 + i;
            if place >= self.down.places {
                sums.fill(T::Sum::default());
                continue;
            }
            dispatch(Back {
                c,
                x: x[2 * place * row..][..2 * row].split_at(row),
                dy: &dy[place * made..][..made],
                sums: sums.split_at_mut(row),
            });
        }
    }
}

/// The largest of each four of a pair of rows.
struct Forward<'a, T, F> {
    c: usize,
    x: (&'a [T], &'a [T]),
    y: &'a mut [T],
    larger: &'a F,
}

impl<T: Elem, F: Fn(T, T) -> bool> Work for Forward<'_, T, F> {
    type Out = ();

    #[inline(always)]
    fn run(self) {
        let (c, larger) = (self.c, self.larger);
        let pick = |a: T, b: T| if larger(b, a) { b } else { a };
        let pairs = self
            .x
            .0
            .chunks_exact(2 * c)
            .zip(self.x.1.chunks_exact(2 * c));
        for (y, (above, below)) in self.y.chunks_exact_mut(c).zip(pairs) {
            let (x0, x1) = above.split_at(c);
            let (x2, x3) = below.split_at(c);
            let (x2, x3) = (&x2[..c], &x3[..c]);
            for (i, y) in y.iter_mut().enumerate() {
                *y = pick(pick(x0[i], x1[i]), pick(x2[i], x3[i]));
            }
        }
    }
}

/// What flows back to a pair of rows.
struct Back<'a, T: Float> {
    c: usize,
    x: (&'a [T], &'a [T]),
    dy: &'a [T],
    sums: (&'a mut [T::Sum], &'a mut [T::Sum]),
}

impl<T: Float> Work for Back<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run(self) {
        let (c, covered) = (self.c, 2 * self.dy.len());
        self.sums.0[covered..].fill(T::Sum::default());
        self.sums.1[covered..].fill(T::Sum::default());
        let pairs = self
            .x
            .0
            .chunks_exact(2 * c)
            .zip(self.x.1.chunks_exact(2 * c));
        let sums = (self.sums.0.chunks_exact_mut(2 * c)).zip(self.sums.1.chunks_exact_mut(2 * c));
        let places = pairs.zip(sums).zip(self.dy.chunks_exact(c));
        for (((above, below), (sums_above, sums_below)), dy) in places {
            let (x0, x1) = above.split_at(c);
            let (x2, x3) = below.split_at(c);
            let (s0, s1) = sums_above.split_at_mut(c);
            let (s2, s3) = sums_below.split_at_mut(c);
            let whole = c / LANES * LANES;
            for at in (0..whole).step_by(LANES) {
                let x = [lanes(x0, at), lanes(x1, at), lanes(x2, at), lanes(x3, at)];
                let [a, b, c, d] = flows(x, lanes(dy, at));
                s0[at..at + LANES].copy_from_slice(&a);
                s1[at..at + LANES].copy_from_slice(&b);
                s2[at..at + LANES].copy_from_slice(&c);
                s3[at..at + LANES].copy_from_slice(&d);
            }
            for at in whole..c {
                let x = [[x0[at]], [x1[at]], [x2[at]], [x3[at]]];
                [[s0[at]], [s1[at]], [s2[at]], [s3[at]]] = flows(x, [dy[at]]);
            }
        }
    }
}

/// Some channels.
#[inline(always)]
fn lanes<T: Elem>(x: &[T], at: usize) -> [T; LANES] {
    let mut own = [T::default(); LANES];
    own.copy_from_slice(&x[at..at + LANES]);
    own
}

/// What flows to each of four: all to the first of the largest. One loop for each step, because those become vectors.
#[inline(always)]
fn flows<T: Float, const N: usize>(x: [[T; N]; 4], dy: [T; N]) -> [[T::Sum; N]; 4] {
    let (mut best, mut found) = (x[0], [0_u32; N]);
    for (x, number) in x.iter().zip(0..).skip(1) {
        for i in 0..N {
            let new = above(x[i], best[i]);
            best[i] = if new { x[i] } else { best[i] };
            found[i] = if new { number } else { found[i] };
        }
    }
    let none = T::Sum::default();
    let mut flows = [[none; N]; 4];
    for (flows, number) in flows.iter_mut().zip(0..) {
        for i in 0..N {
            let flow = none + dy[i].widen();
            flows[i] = if found[i] == number { flow } else { none };
        }
    }
    flows
}
