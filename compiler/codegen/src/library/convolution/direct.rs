//! Direct convolution: for few output channels of a group, as in depthwise convolution.

use super::{Convolution, ExecContext};
use crate::exec::parallel;
use crate::library::GRAIN;
use crate::library::elements::Real;

impl Convolution {
    pub(super) fn forward_direct<T: Real>(
        &self,
        ctx: ExecContext<'_>,
        x: &[T],
        filters: &[T],
        y: &mut [T],
    ) {
        let ((image, _), pixels, c_out) = (self.sizes(), self.output_pixels(), self.filters[3]);
        let (c_in, each) = self.channels();
        let size = (GRAIN / (self.window() * c_out).max(1)).max(1);
        parallel::chunks_mut(ctx.pool, y, size * c_out, |i, part| {
            for (j, y) in part.chunks_exact_mut(c_out).enumerate() {
                let number = i * size + j;
                let x = &x[number / pixels * image..][..image];
                y.fill(T::ZERO);
                self.visit_window(number % pixels, |at, tap| {
                    let filters = &filters[tap * c_in * c_out..][..c_in * c_out];
                    let x = &x[at..][..self.x[3]];
                    if c_in == 1 && each == 1 {
                        for ((y, x), f) in y.iter_mut().zip(x).zip(filters) {
                            *y += *x * *f;
                        }
                        return;
                    }
                    for (group, y) in y.chunks_exact_mut(each).enumerate() {
                        for (i, x) in x[group * c_in..][..c_in].iter().enumerate() {
                            let filters = &filters[i * c_out + group * each..][..each];
                            for (y, f) in y.iter_mut().zip(filters) {
                                *y += *x * *f;
                            }
                        }
                    }
                });
            }
        });
    }

    pub(super) fn input_grad_direct<T: Real>(
        &self,
        ctx: ExecContext<'_>,
        dy: &[T],
        filters: &[T],
        dx: &mut [T],
    ) {
        let ((image, after), c_out) = (self.sizes(), self.filters[3]);
        let (c_in, each) = self.channels();
        parallel::chunks_mut(ctx.pool, dx, image, |i, dx| {
            dx.fill(T::ZERO);
            let dy = &dy[i * after..][..after];
            for (pixel, dy) in dy.chunks_exact(c_out.max(1)).enumerate() {
                self.visit_window(pixel, |at, tap| {
                    let filters = &filters[tap * c_in * c_out..][..c_in * c_out];
                    let dx = &mut dx[at..][..self.x[3]];
                    if c_in == 1 && each == 1 {
                        for ((dx, dy), f) in dx.iter_mut().zip(dy).zip(filters) {
                            *dx += *dy * *f;
                        }
                        return;
                    }
                    for (n, dx) in dx.iter_mut().enumerate() {
                        let (group, i) = (n / c_in, n % c_in);
                        let filters = &filters[i * c_out + group * each..][..each];
                        *dx += dot(&dy[group * each..][..each], filters);
                    }
                });
            }
        });
    }

    /// Accumulates the gradient of the filters over one image.
    pub(super) fn add_filter_grad_direct<T: Real>(&self, x: &[T], dy: &[T], df: &mut [T]) {
        let c_out = self.filters[3];
        let (c_in, each) = self.channels();
        for (pixel, dy) in dy.chunks_exact(c_out.max(1)).enumerate() {
            self.visit_window(pixel, |at, tap| {
                let df = &mut df[tap * c_in * c_out..][..c_in * c_out];
                let x = &x[at..][..self.x[3]];
                if c_in == 1 && each == 1 {
                    for ((df, x), dy) in df.iter_mut().zip(x).zip(dy) {
                        *df += *x * *dy;
                    }
                    return;
                }
                for (n, x) in x.iter().enumerate() {
                    let (group, i) = (n / c_in, n % c_in);
                    let df = &mut df[i * c_out + group * each..][..each];
                    for (df, dy) in df.iter_mut().zip(&dy[group * each..]) {
                        *df += *x * *dy;
                    }
                }
            });
        }
    }
}

/// The dot product, with eight accumulators.
fn dot<T: Real>(a: &[T], b: &[T]) -> T {
    const LANES: usize = 8;
    let mut lanes = [T::ZERO; LANES];
    let (a_runs, b_runs) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let tail = a_runs.remainder().iter().zip(b_runs.remainder());
    for (a, b) in a_runs.zip(b_runs) {
        for i in 0..LANES {
            lanes[i] += a[i] * b[i];
        }
    }
    for (lane, (a, b)) in lanes.iter_mut().zip(tail) {
        *lane += *a * *b;
    }
    let [a, b, c, d, e, f, g, h] = lanes;
    ((a + e) + (c + g)) + ((b + f) + (d + h))
}
