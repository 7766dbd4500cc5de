//! Padding: low, high and interior (lax.pad).

use trainspec_ir::interp::EvalError;

use super::elements::{Elem, any};
use super::{GRAIN, Routine, y};
use crate::exec::parallel;

/// The first operand, padded with the second.
pub(super) fn pad(r: &mut Routine<'_>) -> Result<(), EvalError> {
    r.check();
    any!(r.results[0].dtype, T => run::<T>(r));
    Ok(())
}

fn run<T: Elem>(r: &mut Routine<'_>) {
    let (x, value) = (r.x::<T>(0), r.x::<T>(1)[0]);
    let (low, inside) = (r.sizes("low"), r.sizes("inside"));
    let (from, to) = (&r.types[0].shape, &r.results[0].shape);
    let y = y::<T>(&mut r.outputs[0]);
    let Some(last) = to.len().checked_sub(1) else {
        y[0] = x[0];
        return;
    };
    let (n, width, step) = (to[last], from[last], inside[last] + 1);
    let lines = (GRAIN / n.max(1)).max(1);
    parallel::chunks_mut(r.pool, y, lines * n, |i, part| {
        for (j, line) in part.chunks_exact_mut(n).enumerate() {
            line.fill(value);
            let Some(row) = source(i * lines + j, low, inside, from, to) else {
                continue;
            };
            let at = &x[row * width..][..width];
            match step {
                1 => line[low[last]..][..width].copy_from_slice(at),
                step => {
                    for (k, x) in at.iter().enumerate() {
                        line[low[last] + k * step] = *x;
                    }
                }
            }
        }
    });
}

/// The row of the operand that is in a row of the result; `None` where it is all padding.
fn source(
    mut row: usize,
    low: &[usize],
    inside: &[usize],
    from: &[usize],
    to: &[usize],
) -> Option<usize> {
    let (mut source, mut rows) = (0, 1);
    for i in (0..to.len() - 1).rev() {
        let at = row % to[i];
        row /= to[i];
        let (step, at) = (inside[i] + 1, at.checked_sub(low[i])?);
        if !at.is_multiple_of(step) || at / step >= from[i] {
            return None;
        }
        source += at / step * rows;
        rows *= from[i];
    }
    Some(source)
}
