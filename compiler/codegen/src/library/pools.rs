//! Pools: the largest or the sum of what lies under a window, and their gradients.

mod quartered;

use std::ops::Range;

use trainspec_ir::interp::EvalError;

use super::elements::{Elem, Float, floats, ints};
use super::scratch::Kept;
use super::windows::Along;
use super::{GRAIN, Routine, y};
use crate::exec::multiversion::{Work, dispatch};
use crate::exec::parallel;

/// A pool of images.
struct Pooling {
    /// The shape of what is pooled.
    x: [usize; 4],
    down: Along,
    right: Along,
}

impl Pooling {
    /// The pool that takes images of the shape `x` to those of the shape `y`.
    fn new(r: &Routine<'_>, x: &[usize], y: &[usize]) -> Pooling {
        let x: [usize; 4] = x.try_into().expect("images have 4 dimensions");
        let (ksize, strides, pads) = (r.sizes("ksize"), r.sizes("strides"), r.pairs("pads"));
        let along = |i: usize| Along {
            input: x[1 + i],
            kernel: ksize[i],
            stride: strides[i],
            before: pads[i].0,
            dilation: 1,
            places: y[1 + i],
        };
        Pooling {
            x,
            down: along(0),
            right: along(1),
        }
    }

    /// Elements of one image before the pool, and after it.
    fn sizes(&self) -> (usize, usize) {
        let [_, h, w, c] = self.x;
        (h * w * c, self.down.places * self.right.places * c)
    }

    /// Elements of one row of an image.
    fn row(&self) -> usize {
        self.x[2] * self.x[3]
    }

    /// The places whose windows may reach some rows of an image, of which there are some.
    fn over(&self, rows: &Range<usize>) -> Range<usize> {
        let Along {
            kernel,
            stride,
            before,
            places,
            ..
        } = self.down;
        let first = (rows.start + before + 1)
            .saturating_sub(kernel)
            .div_ceil(stride);
        let end = ((rows.end + before - 1) / stride + 1).min(places);
        first.min(end) * self.right.places..end * self.right.places
    }

    /// Visits what lies under a place of an image, row after row: where its channels begin in the image.
    fn under(&self, place: usize, mut visit: impl FnMut(usize)) {
        let [_, _, w, c] = self.x;
        let (row, column) = (place / self.right.places, place % self.right.places);
        for i in self.down.under(row) {
            for j in self.right.under(column) {
                visit((i * w + j) * c);
            }
        }
    }

    /// How many places a task takes.
    fn places(&self) -> usize {
        let work = self.x[3] * self.down.kernel.saturating_mul(self.right.kernel);
        (GRAIN / work.max(1)).max(1)
    }

    /// For some channels of a place, from `first` on, the number of the visit that finds the first of the largest.
    #[inline(always)]
    fn largest<T: Float>(&self, place: usize, x: &[T], first: usize, visits: &mut [u32]) {
        let mut best = [T::default(); BESIDE];
        let mut visit = 0;
        self.under(place, |at| {
            let xs = &x[at + first..][..visits.len()];
            if visit == 0 {
                visits.fill(0);
                best[..xs.len()].copy_from_slice(xs);
            } else {
                for ((best, found), x) in best.iter_mut().zip(&mut *visits).zip(xs) {
                    let new = above(*x, *best);
                    *best = if new { *x } else { *best };
                    *found = if new { visit } else { *found };
                }
            }
            visit += 1;
        });
    }
}

/// The largest under some places of an image, as a change of each element that lies under one.
struct Largest<'a, T, F> {
    pooling: &'a Pooling,
    places: Range<usize>,
    x: &'a [T],
    /// Called with the place, where some channels under it are, the first of them, the visits that find the largest, and this visit.
    change: F,
}

impl<T: Float, F: FnMut(usize, usize, usize, &[u32], u32)> Work for Largest<'_, T, F> {
    type Out = ();

    #[inline(always)]
    fn run(mut self) {
        let c = self.pooling.x[3];
        for place in self.places {
            for first in (0..c).step_by(BESIDE) {
                let mut visits = [0; BESIDE];
                let visits = &mut visits[..BESIDE.min(c - first)];
                self.pooling.largest(place, self.x, first, visits);
                let mut visit = 0;
                self.pooling.under(place, |at| {
                    (self.change)(place, at + first, first, visits, visit);
                    visit += 1;
                });
            }
        }
    }
}

/// How many channels are looked at together.
const BESIDE: usize = 64;

/// Whether one float is above another; NaN is above all numbers.
#[inline(always)]
#[allow(clippy::eq_op, clippy::neg_cmp_op_on_partial_ord)] // NaN differs from itself, and is not below
fn above<T: Float>(a: T, b: T) -> bool {
    !(a <= b) & (b == b)
}

/// The largest under each place.
pub(super) fn max_pool2d(r: &mut Routine<'_>) -> Result<(), EvalError> {
    r.check();
    let dtype = r.types[0].dtype;
    match dtype.int_range() {
        Some((least, _)) => {
            ints!(dtype, T => largest(r, T::from_i64(least), |a: T, b: T| a > b));
        }
        None => floats!(dtype, T => largest(r, T::rounded(f64::NEG_INFINITY), above::<T>)),
    }
    Ok(())
}

fn largest<T: Elem>(r: &mut Routine<'_>, none: T, larger: impl Fn(T, T) -> bool + Sync) {
    let x = r.x::<T>(0);
    let pooling = Pooling::new(r, &r.types[0].shape, &r.results[0].shape);
    if pooling.is_quartered() {
        return pooling.largest_of_four(r, x, larger);
    }
    each_place(r, |pooling, image, place, y: &mut [T]| {
        let mut first = true;
        pooling.under(place, |at| {
            let xs = &x[image + at..][..y.len()];
            if first {
                y.copy_from_slice(xs);
                first = false;
                return;
            }
            for (y, x) in y.iter_mut().zip(xs) {
                *y = if larger(*x, *y) { *x } else { *y };
            }
        });
        if first {
            y.fill(none);
        }
    });
}

/// The sum under each place.
pub(super) fn sum_pool2d(r: &mut Routine<'_>) -> Result<(), EvalError> {
    r.check();
    floats!(r.types[0].dtype, T => sum::<T>(r));
    Ok(())
}

fn sum<T: Float>(r: &mut Routine<'_>) {
    let x = r.x::<T>(0);
    each_place(r, |pooling, image, place, y: &mut [T]| {
        for (i, y) in y.chunks_mut(BESIDE).enumerate() {
            // A sum of no terms is -0, because that changes none.
            let mut sums = [T::Sum::rounded(-0.0); BESIDE];
            pooling.under(place, |at| {
                let xs = &x[image + at + i * BESIDE..][..y.len()];
                for (sum, x) in sums.iter_mut().zip(xs) {
                    *sum += x.widen();
                }
            });
            for (y, sum) in y.iter_mut().zip(sums) {
                *y = T::narrow(sum);
            }
        }
    });
}

/// From another tensor what stands where the largest is.
pub(super) fn max_pool2d_pick(r: &mut Routine<'_>) -> Result<(), EvalError> {
    r.check();
    floats!(r.types[0].dtype, T => {
        let (x, z) = (r.x::<T>(0), r.x::<T>(1));
        each_place(r, |pooling, image, place, y: &mut [T]| {
            y.fill(T::default());
            let (x, z) = (&x[image..], &z[image..]);
            dispatch(Largest {
                pooling,
                places: place..place + 1,
                x,
                change: |_, at: usize, first: usize, visits: &[u32], visit: u32| {
                    let own = y[first..].iter_mut().zip(&z[at..]);
                    for ((y, z), found) in own.zip(visits) {
                        *y = if *found == visit { *z } else { *y };
                    }
                },
            });
        });
    });
    Ok(())
}

/// Calls `work` for each place of each image with where the image begins, the place, and the channels of the result.
fn each_place<T: Elem>(
    r: &mut Routine<'_>,
    work: impl Fn(&Pooling, usize, usize, &mut [T]) + Sync,
) {
    let pooling = Pooling::new(r, &r.types[0].shape, &r.results[0].shape);
    let ((image, pooled), c, size) = (pooling.sizes(), pooling.x[3], pooling.places());
    let places = pooled / c.max(1);
    parallel::chunks_mut(r.pool, y::<T>(&mut r.outputs[0]), size * c, |i, part| {
        for (j, y) in part.chunks_exact_mut(c).enumerate() {
            let place = i * size + j;
            work(&pooling, place / places * image, place % places, y);
        }
    });
}

/// What flows back from the largest: it goes to the first of them.
pub(super) fn max_pool2d_grad(r: &mut Routine<'_>) -> Result<(), EvalError> {
    r.check();
    floats!(r.types[0].dtype, T => {
        let (x, dy) = (r.x::<T>(0), r.x::<T>(1));
        let pooling = Pooling::new(r, &r.types[0].shape, &r.types[1].shape);
        let (size, pooled) = pooling.sizes();
        let (c, quartered) = (pooling.x[3], pooling.is_quartered());
        each_rows::<T>(r, &pooling, |image, rows, sums| {
            let x = &x[image * size..][..size];
            let dy = &dy[image * pooled..][..pooled];
            if quartered {
                return pooling.flow_to_one_of_four(rows, x, dy, sums);
            }
            sums.fill(<T as Float>::Sum::default());
            let start = pooling.row() * rows.start;
            dispatch(Largest {
                pooling: &pooling,
                places: pooling.over(&rows),
                x,
                change: |place: usize, at: usize, first: usize, visits: &[u32], visit: u32| {
                    // Some windows reach into rows of other tasks.
                    let Some(at) = at.checked_sub(start).filter(|at| *at < sums.len()) else {
                        return;
                    };
                    let own = sums[at..].iter_mut().zip(&dy[place * c + first..]);
                    for ((sum, dy), found) in own.zip(visits) {
                        let more = *sum + dy.widen();
                        *sum = if *found == visit { more } else { *sum };
                    }
                },
            });
        });
    });
    Ok(())
}

/// What flows back from sums: all that lies under a place gets what flows into it.
pub(super) fn sum_pool2d_grad(r: &mut Routine<'_>) -> Result<(), EvalError> {
    r.check();
    floats!(r.types[0].dtype, T => {
        let dy = r.x::<T>(0);
        let pooling = Pooling::new(r, r.sizes("shape"), &r.types[0].shape);
        let (_, pooled) = pooling.sizes();
        let c = pooling.x[3];
        each_rows::<T>(r, &pooling, |image, rows, sums| {
            sums.fill(<T as Float>::Sum::default());
            let dy = &dy[image * pooled..][..pooled];
            let start = pooling.row() * rows.start;
            for place in pooling.over(&rows) {
                let dy = &dy[place * c..][..c];
                pooling.under(place, |at| {
                    // Some windows reach into rows of other tasks.
                    if let Some(at) = at.checked_sub(start).filter(|at| *at < sums.len()) {
                        for (sum, dy) in sums[at..].iter_mut().zip(dy) {
                            *sum += dy.widen();
                        }
                    }
                });
            }
        });
    });
    Ok(())
}

/// Calls `work` with some rows of each image, and room for their sums, which is arbitrary before, and rounds them.
fn each_rows<T: Float>(
    r: &mut Routine<'_>,
    pooling: &Pooling,
    work: impl Fn(usize, Range<usize>, &mut [T::Sum]) + Sync,
) {
    let (size, row, scratch) = (pooling.sizes().0, pooling.row(), &*r.scratch);
    let y = y::<T>(&mut r.outputs[0]);
    if y.is_empty() {
        return;
    }
    let (height, stride) = (pooling.x[1], pooling.down.stride.max(1));
    // Rows of whole windows, where windows do not overlap.
    let rows = (GRAIN / row / stride).max(1).saturating_mul(stride);
    let rows = rows.min(height);
    if T::as_sums(&mut y[..0]).is_none() {
        T::Sum::shelf(scratch).prepare(r.pool.threads(), rows * row);
    }
    parallel::grouped_chunks_mut(r.pool, y, size, rows * row, |image, i, part| {
        let own = i * rows..height.min((i + 1) * rows);
        super::rows::with_sums(scratch, part, |sums| work(image, own, sums));
    });
}
