//! Cumulative sums (prefix sums, tf.cumsum) along an axis.

use trainspec_ir::interp::EvalError;

use super::elements::{Elem, floats, ints};
use super::{GRAIN, Routine, y};
use crate::exec::parallel;

/// Inclusive or exclusive prefix sums, forward or reverse. Floats are summed sequentially in f64, as the interpreter does.
pub(super) fn cumsum(r: &mut Routine<'_>) -> Result<(), EvalError> {
    r.check();
    let dtype = r.types[0].dtype;
    match dtype.is_float() {
        true => floats!(dtype, T => run(r, 0.0, |sum, x: T| sum + x.to_f64(), T::rounded)),
        false => ints!(dtype, T => {
            run(r, 0, |sum: i64, x: T| sum.wrapping_add(x.to_i64()), T::from_i64)
        }),
    }
    Ok(())
}

/// Adjacent columns that are summed together.
const COLUMN_BLOCK: usize = 64;

fn run<T: Elem, A: Copy + Send + Sync>(
    r: &mut Routine<'_>,
    zero: A,
    add: impl Fn(A, T) -> A + Sync,
    write: impl Fn(A) -> T + Sync,
) {
    let (x, axis) = (r.x::<T>(0), r.size("axis"));
    let (exclusive, reverse) = (r.flag("exclusive"), r.flag("reverse"));
    let shape = &r.types[0].shape;
    let (n, inner) = (shape[axis], shape[axis + 1..].iter().product::<usize>());
    let slab = n * inner;
    let size = (GRAIN / slab.max(1)).max(1) * slab;
    parallel::chunks_mut(r.pool, y::<T>(&mut r.outputs[0]), size, |i, part| {
        for (x, y) in x[i * size..]
            .chunks_exact(slab)
            .zip(part.chunks_exact_mut(slab))
        {
            if inner == 1 {
                let mut sum = zero;
                let mut step = |(y, x): (&mut T, &T)| {
                    let before = sum;
                    sum = add(before, *x);
                    *y = write(if exclusive { before } else { sum });
                };
                match reverse {
                    true => y.iter_mut().zip(x).rev().for_each(&mut step),
                    false => y.iter_mut().zip(x).for_each(&mut step),
                }
                continue;
            }
            for first in (0..inner).step_by(COLUMN_BLOCK) {
                let width = COLUMN_BLOCK.min(inner - first);
                let mut sums = [zero; COLUMN_BLOCK];
                for step in 0..n {
                    let row = if reverse { n - 1 - step } else { step };
                    let at = row * inner + first;
                    let line = y[at..][..width].iter_mut().zip(&x[at..][..width]);
                    for ((y, x), sum) in line.zip(&mut sums) {
                        let before = *sum;
                        *sum = add(before, *x);
                        *y = write(if exclusive { before } else { *sum });
                    }
                }
            }
        }
    });
}
