//! Pooling (max and sum) over 2-D windows, and its gradients.

mod pool_2x2;

use std::ops::Range;

use trainspec_ir::interp::EvalError;
use trainspec_ir::window::WindowAxis;

use super::elements::{Elem, Float, floats, ints};
use super::scratch::Pooled;
use super::{GRAIN, Routine, y};
use crate::exec::multiversion::{Work, dispatch};
use crate::exec::parallel;

/// A 2-D pooling.
struct Pooling {
    /// The shape of the input: batch, height, width, channels.
    x: [usize; 4],
    down: WindowAxis,
    right: WindowAxis,
}

impl Pooling {
    /// The pooling of inputs of shape `x`.
    fn new(r: &Routine<'_>, x: &[usize]) -> Pooling {
        let x: [usize; 4] = x.try_into().expect("images have 4 dimensions");
        let (ksize, strides, pads) = (r.sizes("ksize"), r.sizes("strides"), r.pairs("pads"));
        let along = |i: usize| {
            WindowAxis::new(x[1 + i], ksize[i], strides[i], pads[i], 1)
                .expect("type inference has seen the window")
        };
        Pooling {
            x,
            down: along(0),
            right: along(1),
        }
    }

    /// Elements of one image of the input, and of the output.
    fn sizes(&self) -> (usize, usize) {
        let [_, h, w, c] = self.x;
        (h * w * c, self.down.outputs * self.right.outputs * c)
    }

    /// Elements of one row of the input.
    fn row(&self) -> usize {
        self.x[2] * self.x[3]
    }

    /// The outputs whose windows may overlap the input rows `rows`, which are not empty.
    fn outputs_over(&self, rows: &Range<usize>) -> Range<usize> {
        let WindowAxis {
            kernel,
            stride,
            pad_before,
            outputs,
            ..
        } = self.down;
        let first = (rows.start + pad_before + 1)
            .saturating_sub(kernel)
            .div_ceil(stride);
        let end = ((rows.end + pad_before - 1) / stride + 1).min(outputs);
        first.min(end) * self.right.outputs..end * self.right.outputs
    }

    /// Visits the window of an output in row-major order: the offset of the channels of each pixel.
    fn visit_window(&self, output: usize, mut visit: impl FnMut(usize)) {
        let [_, _, w, c] = self.x;
        let (row, column) = (output / self.right.outputs, output % self.right.outputs);
        for i in self.down.input_range(row) {
            for j in self.right.input_range(column) {
                visit((i * w + j) * c);
            }
        }
    }

    /// The outputs of a task.
    fn task_outputs(&self) -> usize {
        let work = self.x[3] * self.down.kernel.saturating_mul(self.right.kernel);
        (GRAIN / work.max(1)).max(1)
    }

    /// Argmax over a window, for channels from `first` on: the number of the visit of the first maximum.
    #[inline(always)]
    fn argmax<T: Float>(&self, output: usize, x: &[T], first: usize, visits: &mut [u32]) {
        let mut best = [T::default(); CHANNEL_BLOCK];
        let mut visit = 0;
        self.visit_window(output, |at| {
            let xs = &x[at + first..][..visits.len()];
            if visit == 0 {
                visits.fill(0);
                best[..xs.len()].copy_from_slice(xs);
            } else {
                for ((best, found), x) in best.iter_mut().zip(&mut *visits).zip(xs) {
                    let new = is_greater(*x, *best);
                    *best = if new { *x } else { *best };
                    *found = if new { visit } else { *found };
                }
            }
            visit += 1;
        });
    }
}

/// Argmax of the windows of some outputs, passed to a callback for each pixel of a window.
struct VisitArgmax<'a, T, F> {
    pooling: &'a Pooling,
    outputs: Range<usize>,
    x: &'a [T],
    /// Called with the output, the offset of a pixel's channels, the first channel, the visits of the maxima, and this visit.
    change: F,
}

impl<T: Float, F: FnMut(usize, usize, usize, &[u32], u32)> Work for VisitArgmax<'_, T, F> {
    type Out = ();

    #[inline(always)]
    fn run(mut self) {
        let c = self.pooling.x[3];
        for output in self.outputs {
            for first in (0..c).step_by(CHANNEL_BLOCK) {
                let mut visits = [0; CHANNEL_BLOCK];
                let visits = &mut visits[..CHANNEL_BLOCK.min(c - first)];
                self.pooling.argmax(output, self.x, first, visits);
                let mut visit = 0;
                self.pooling.visit_window(output, |at| {
                    (self.change)(output, at + first, first, visits, visit);
                    visit += 1;
                });
            }
        }
    }
}

/// Channels that are processed together.
const CHANNEL_BLOCK: usize = 64;

/// Whether a > b, NaN being greater than all numbers.
#[inline(always)]
#[allow(clippy::eq_op, clippy::neg_cmp_op_on_partial_ord)] // NaN differs from itself, and is not below
fn is_greater<T: Float>(a: T, b: T) -> bool {
    !(a <= b) & (b == b)
}

/// Max pooling.
pub(super) fn max_pool2d(r: &mut Routine<'_>) -> Result<(), EvalError> {
    r.check();
    let dtype = r.types[0].dtype;
    match dtype.int_range() {
        Some((min, _)) => {
            ints!(dtype, T => max(r, T::from_i64(min), |a: T, b: T| a > b));
        }
        None => floats!(dtype, T => max(r, T::rounded(f64::NEG_INFINITY), is_greater::<T>)),
    }
    Ok(())
}

fn max<T: Elem>(r: &mut Routine<'_>, none: T, larger: impl Fn(T, T) -> bool + Sync) {
    let x = r.x::<T>(0);
    let pooling = Pooling::new(r, &r.types[0].shape);
    if pooling.is_2x2() {
        return pooling.max_2x2(r, x, larger);
    }
    each_output(r, |pooling, image, output, y: &mut [T]| {
        let mut first = true;
        pooling.visit_window(output, |at| {
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

/// Sum pooling.
pub(super) fn sum_pool2d(r: &mut Routine<'_>) -> Result<(), EvalError> {
    r.check();
    floats!(r.types[0].dtype, T => sum::<T>(r));
    Ok(())
}

fn sum<T: Float>(r: &mut Routine<'_>) {
    let x = r.x::<T>(0);
    each_output(r, |pooling, image, output, y: &mut [T]| {
        for (i, y) in y.chunks_mut(CHANNEL_BLOCK).enumerate() {
            // -0 is the identity element of addition.
            let mut sums = [T::Acc::rounded(-0.0); CHANNEL_BLOCK];
            pooling.visit_window(output, |at| {
                let xs = &x[image + at + i * CHANNEL_BLOCK..][..y.len()];
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

/// Gathers from a second tensor at the argmax positions (the second-order gradient of max pooling).
pub(super) fn max_pool2d_pick(r: &mut Routine<'_>) -> Result<(), EvalError> {
    r.check();
    floats!(r.types[0].dtype, T => {
        let (x, z) = (r.x::<T>(0), r.x::<T>(1));
        let cpu = r.cpu;
        each_output(r, |pooling, image, output, y: &mut [T]| {
            y.fill(T::default());
            let (x, z) = (&x[image..], &z[image..]);
            let visit = VisitArgmax {
                pooling,
                outputs: output..output + 1,
                x,
                change: |_, at: usize, first: usize, visits: &[u32], visit: u32| {
                    let own = y[first..].iter_mut().zip(&z[at..]);
                    for ((y, z), found) in own.zip(visits) {
                        *y = if *found == visit { *z } else { *y };
                    }
                },
            };
            dispatch(cpu, visit);
        });
    });
    Ok(())
}

/// Calls `work` for each output of each image with the offset of the image, the output, and its channels.
fn each_output<T: Elem>(
    r: &mut Routine<'_>,
    work: impl Fn(&Pooling, usize, usize, &mut [T]) + Sync,
) {
    let pooling = Pooling::new(r, &r.types[0].shape);
    let ((image, pooled), c, size) = (pooling.sizes(), pooling.x[3], pooling.task_outputs());
    let outputs = pooled / c.max(1);
    parallel::chunks_mut(r.pool, y::<T>(&mut r.outputs[0]), size * c, |i, part| {
        for (j, y) in part.chunks_exact_mut(c).enumerate() {
            let output = i * size + j;
            work(&pooling, output / outputs * image, output % outputs, y);
        }
    });
}

/// The gradient of max pooling: goes to the first maximum of each window.
pub(super) fn max_pool2d_grad(r: &mut Routine<'_>) -> Result<(), EvalError> {
    r.check();
    floats!(r.types[0].dtype, T => {
        let (x, dy) = (r.x::<T>(0), r.x::<T>(1));
        let pooling = Pooling::new(r, &r.types[0].shape);
        let (size, pooled) = pooling.sizes();
        let (c, is_2x2, cpu) = (pooling.x[3], pooling.is_2x2(), r.cpu);
        each_rows::<T>(r, &pooling, |image, rows, sums| {
            let x = &x[image * size..][..size];
            let dy = &dy[image * pooled..][..pooled];
            if is_2x2 {
                return pooling.max_2x2_grad(cpu, rows, x, dy, sums);
            }
            sums.fill(<T as Float>::Acc::default());
            let start = pooling.row() * rows.start;
            let visit = VisitArgmax {
                pooling: &pooling,
                outputs: pooling.outputs_over(&rows),
                x,
                change: |output: usize, at: usize, first: usize, visits: &[u32], visit: u32| {
                    // Some windows overlap rows of other tasks.
                    let Some(at) = at.checked_sub(start).filter(|at| *at < sums.len()) else {
                        return;
                    };
                    let own = sums[at..].iter_mut().zip(&dy[output * c + first..]);
                    for ((sum, dy), found) in own.zip(visits) {
                        let more = *sum + dy.widen();
                        *sum = if *found == visit { more } else { *sum };
                    }
                },
            };
            dispatch(cpu, visit);
        });
    });
    Ok(())
}

/// The gradient of sum pooling: every pixel of a window gets the cotangent of its output.
pub(super) fn sum_pool2d_grad(r: &mut Routine<'_>) -> Result<(), EvalError> {
    r.check();
    floats!(r.types[0].dtype, T => {
        let dy = r.x::<T>(0);
        let pooling = Pooling::new(r, r.sizes("shape"));
        let (_, pooled) = pooling.sizes();
        let c = pooling.x[3];
        each_rows::<T>(r, &pooling, |image, rows, sums| {
            sums.fill(<T as Float>::Acc::default());
            let dy = &dy[image * pooled..][..pooled];
            let start = pooling.row() * rows.start;
            for output in pooling.outputs_over(&rows) {
                let dy = &dy[output * c..][..c];
                pooling.visit_window(output, |at| {
                    // Some windows overlap rows of other tasks.
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

/// Calls `work` with row ranges of each image and their accumulators, arbitrary before, and rounds them.
fn each_rows<T: Float>(
    r: &mut Routine<'_>,
    pooling: &Pooling,
    work: impl Fn(usize, Range<usize>, &mut [T::Acc]) + Sync,
) {
    let (size, row, scratch) = (pooling.sizes().0, pooling.row(), &*r.scratch);
    let y = y::<T>(&mut r.outputs[0]);
    if y.is_empty() {
        return;
    }
    let (height, stride) = (pooling.x[1], pooling.down.stride.max(1));
    // Multiples of the stride, so that no window spans two tasks where windows do not overlap.
    let rows = (GRAIN / row / stride).max(1).saturating_mul(stride);
    let rows = rows.min(height);
    if T::as_accumulators(&mut y[..0]).is_none() {
        T::Acc::buffers(scratch).prepare(r.pool.threads(), rows * row);
    }
    parallel::grouped_chunks_mut(r.pool, y, size, rows * row, |image, i, part| {
        let own = i * rows..height.min((i + 1) * rows);
        super::gather_scatter::with_accumulators(scratch, part, |sums| work(image, own, sums));
    });
}
