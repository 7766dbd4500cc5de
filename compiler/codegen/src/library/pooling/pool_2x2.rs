//! Max pooling with 2 x 2 windows and stride 2, the most common case: vectorized over channels.
//!
//! An odd last row or column belongs to no window.

use std::ops::Range;

use trainspec_ir::window::WindowAxis;

use super::{Pooling, is_greater};
use crate::cpu::Cpu;
use crate::exec::multiversion::{Work, dispatch};
use crate::exec::parallel;
use crate::library::elements::{Elem, Float};
use crate::library::{GRAIN, Routine, y};

/// Channels that are processed together.
const LANES: usize = 8;

impl Pooling {
    /// Whether windows are 2 x 2 with stride 2 and without padding.
    pub(super) fn is_2x2(&self) -> bool {
        let by_two = |a: &WindowAxis| {
            let own = a.kernel == 2 && a.stride == 2 && a.pad_before == 0;
            own && a.outputs <= a.input / 2
        };
        by_two(&self.down) && by_two(&self.right)
    }

    /// The maximum of each window.
    pub(super) fn max_2x2<T: Elem>(
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
        let cpu = r.cpu;
        let output_row = self.right.outputs * c;
        let rows = (GRAIN / (4 * output_row)).max(1);
        parallel::chunks_mut(r.pool, y, rows * output_row, |i, part| {
            for (j, y) in part.chunks_exact_mut(output_row).enumerate() {
                let (number, output_y) = {
                    let all = i * rows + j;
                    (all / self.down.outputs, all % self.down.outputs)
                };
                let x = &x[number * image + 2 * output_y * row..][..2 * row];
                let forward = Forward {
                    c,
                    x: x.split_at(row),
                    y,
                    larger: &larger,
                };
                dispatch(cpu, forward);
            }
        });
    }

    /// The gradient for input rows of an image, which begin at an even row.
    pub(super) fn max_2x2_grad<T: Float>(
        &self,
        cpu: Cpu,
        rows: Range<usize>,
        x: &[T],
        dy: &[T],
        sums: &mut [T::Acc],
    ) {
        let (c, row) = (self.x[3], self.row());
        let output_row = self.right.outputs * c;
        for (i, sums) in sums.chunks_mut(2 * row).enumerate() {
            let output_y = rows.start / 2 + i;
            if output_y >= self.down.outputs {
                sums.fill(T::Acc::default());
                continue;
            }
            let backward = Backward {
                c,
                x: x[2 * output_y * row..][..2 * row].split_at(row),
                dy: &dy[output_y * output_row..][..output_row],
                sums: sums.split_at_mut(row),
            };
            dispatch(cpu, backward);
        }
    }
}

/// The maxima of the windows of a pair of rows.
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

/// The gradient of a pair of rows.
struct Backward<'a, T: Float> {
    c: usize,
    x: (&'a [T], &'a [T]),
    dy: &'a [T],
    sums: (&'a mut [T::Acc], &'a mut [T::Acc]),
}

impl<T: Float> Work for Backward<'_, T> {
    type Out = ();

    #[inline(always)]
    fn run(self) {
        let (c, covered) = (self.c, 2 * self.dy.len());
        self.sums.0[covered..].fill(T::Acc::default());
        self.sums.1[covered..].fill(T::Acc::default());
        let pairs = self
            .x
            .0
            .chunks_exact(2 * c)
            .zip(self.x.1.chunks_exact(2 * c));
        let sums = (self.sums.0.chunks_exact_mut(2 * c)).zip(self.sums.1.chunks_exact_mut(2 * c));
        let outputs = pairs.zip(sums).zip(self.dy.chunks_exact(c));
        for (((above, below), (sums_above, sums_below)), dy) in outputs {
            let (x0, x1) = above.split_at(c);
            let (x2, x3) = below.split_at(c);
            let (s0, s1) = sums_above.split_at_mut(c);
            let (s2, s3) = sums_below.split_at_mut(c);
            let vectorized = c / LANES * LANES;
            for at in (0..vectorized).step_by(LANES) {
                let x = [lanes(x0, at), lanes(x1, at), lanes(x2, at), lanes(x3, at)];
                let [a, b, c, d] = gradients(x, lanes(dy, at));
                s0[at..at + LANES].copy_from_slice(&a);
                s1[at..at + LANES].copy_from_slice(&b);
                s2[at..at + LANES].copy_from_slice(&c);
                s3[at..at + LANES].copy_from_slice(&d);
            }
            for at in vectorized..c {
                let x = [[x0[at]], [x1[at]], [x2[at]], [x3[at]]];
                [[s0[at]], [s1[at]], [s2[at]], [s3[at]]] = gradients(x, [dy[at]]);
            }
        }
    }
}

/// A vector of channels.
#[inline(always)]
fn lanes<T: Elem>(x: &[T], at: usize) -> [T; LANES] {
    let mut own = [T::default(); LANES];
    own.copy_from_slice(&x[at..at + LANES]);
    own
}

/// The gradients of the four pixels of a window: the cotangent goes to the first maximum. One loop for each step, so that each is
/// auto-vectorized.
#[inline(always)]
fn gradients<T: Float, const N: usize>(x: [[T; N]; 4], dy: [T; N]) -> [[T::Acc; N]; 4] {
    let (mut best, mut found) = (x[0], [0_u32; N]);
    for (x, number) in x.iter().zip(0..).skip(1) {
        for i in 0..N {
            let new = is_greater(x[i], best[i]);
            best[i] = if new { x[i] } else { best[i] };
            found[i] = if new { number } else { found[i] };
        }
    }
    let none = T::Acc::default();
    let mut gradients = [[none; N]; 4];
    for (gradient, number) in gradients.iter_mut().zip(0..) {
        for i in 0..N {
            let cotangent = none + dy[i].widen();
            gradient[i] = if found[i] == number { cotangent } else { none };
        }
    }
    gradients
}
