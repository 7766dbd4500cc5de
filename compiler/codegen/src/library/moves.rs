//! Elements that go elsewhere: each dimension of the result steps through the operand at a pace of its own.

use trainspec_ir::interp::EvalError;

use super::elements::{Elem, any};
use super::scratch::Step;
use super::{GRAIN, Routine, y};
use crate::exec::parallel;
use crate::exec::pool::Pool;

/// The first operand as it is.
pub(super) fn copy(r: &mut Routine<'_>) -> Result<(), EvalError> {
    r.check();
    any!(r.results[0].dtype, T => {
        let x = r.x::<T>(0);
        parallel::chunks_mut(r.pool, y::<T>(&mut r.outputs[0]), GRAIN, |i, part| {
            part.copy_from_slice(&x[i * GRAIN..][..part.len()]);
        });
    });
    Ok(())
}

/// Dimensions in another order.
pub(super) fn transpose(r: &mut Routine<'_>) -> Result<(), EvalError> {
    let perm = r.sizes("perm");
    gather(r, |strides, size| {
        perm.iter().for_each(|axis| strides.push(size(*axis)));
        0
    })
}

/// Some of the elements along each dimension.
pub(super) fn slice(r: &mut Routine<'_>) -> Result<(), EvalError> {
    let (begin, size, stride) = (r.sizes("begin"), r.sizes("size"), r.sizes("stride"));
    gather(r, |strides, whole| {
        let mut start = 0;
        for i in 0..begin.len() {
            let Step { step, .. } = whole(i);
            start += begin[i] as isize * step;
            // The step from a lone element leads nowhere, and may be too long.
            let step = if size[i] > 1 {
                stride[i] as isize * step
            } else {
                0
            };
            strides.push(Step {
                size: size[i],
                step,
            });
        }
        start
    })
}

/// Some dimensions the other way round.
pub(super) fn reverse(r: &mut Routine<'_>) -> Result<(), EvalError> {
    let (axes, rank) = (r.sizes("axes"), r.types[0].rank());
    gather(r, |strides, whole| {
        let mut start = 0;
        for i in 0..rank {
            let Step { size, step } = whole(i);
            let turned = axes.contains(&i);
            if turned {
                start += (size as isize - 1) * step;
            }
            let step = if turned { -step } else { step };
            strides.push(Step { size, step });
        }
        start
    })
}

/// Elements repeated along dimensions.
pub(super) fn broadcast(r: &mut Routine<'_>) -> Result<(), EvalError> {
    let (from, to) = (&r.types[0].shape, &r.results[0].shape);
    gather(r, |strides, whole| {
        let new = to.len() - from.len();
        for (i, size) in to.iter().enumerate() {
            let step = match i.checked_sub(new) {
                Some(i) if from[i] == *size => whole(i).step,
                _ => 0,
            };
            strides.push(Step { size: *size, step });
        }
        0
    })
}

/// Makes a result whose dimensions `view` says in terms of those of the operand; it returns where the first element is.
fn gather(
    r: &mut Routine<'_>,
    view: impl FnOnce(&mut Vec<Step>, &dyn Fn(usize) -> Step) -> isize,
) -> Result<(), EvalError> {
    r.check();
    let shape = &r.types[0].shape;
    let whole = |axis: usize| Step {
        size: shape[axis],
        step: shape[axis + 1..].iter().product::<usize>() as isize,
    };
    let steps = &mut r.scratch.steps;
    steps.clear();
    let start = view(steps, &whole);
    merge(steps);
    any!(r.results[0].dtype, T => {
        let x = T::of(&r.operands[0]).expect("moves keep the element type");
        walk(r.pool, x, start, steps, y::<T>(&mut r.outputs[0]));
    });
    Ok(())
}

/// Drops dimensions of one element and joins those that are walked as one.
pub(super) fn merge(steps: &mut Vec<Step>) {
    steps.retain(|s| s.size != 1);
    let mut last = 0;
    for i in 1..steps.len() {
        let (outer, inner) = (steps[last], steps[i]);
        match outer.step == inner.step * inner.size as isize {
            true => {
                steps[last] = Step {
                    size: outer.size * inner.size,
                    step: inner.step,
                };
            }
            false => {
                last += 1;
                steps[last] = inner;
            }
        }
    }
    steps.truncate(last + 1);
}

/// Where the element of number `i` is, counted row after row over these dimensions.
#[inline]
pub(super) fn place(steps: &[Step], mut i: usize) -> isize {
    match steps {
        [] => 0,
        [only] => i as isize * only.step,
        [first, rest @ ..] => {
            let mut at = 0;
            for s in rest.iter().rev() {
                at += (i % s.size) as isize * s.step;
                i /= s.size;
            }
            at + i as isize * first.step
        }
    }
}

/// How many rows are read side by side where they lie so in the operand.
const BESIDE: usize = 16;

fn walk<T: Elem>(pool: &Pool, x: &[T], start: isize, steps: &[Step], y: &mut [T]) {
    let Some((last, outer)) = steps.split_last() else {
        y.iter_mut().for_each(|y| *y = x[start as usize]);
        return;
    };
    let n = last.size;
    // Rows whose elements are far apart, but which lie beside each other.
    let beside = match outer.last() {
        Some(rows) if rows.step == 1 && last.step != 1 => rows.size,
        _ => 1,
    };
    let size = match (GRAIN / n.max(1)).max(BESIDE.min(beside)) {
        1 if n > GRAIN => GRAIN,
        lines => lines * n,
    };
    parallel::chunks_mut(pool, y, size, |i, part| {
        let (mut row, mut column) = (i * size / n, i * size % n);
        let mut rest = part;
        while !rest.is_empty() {
            let at = start + place(outer, row) + column as isize * last.step;
            let block = (beside - row % beside).min(BESIDE).min(rest.len() / n);
            if column == 0 && block > 1 {
                let (rows, after) = rest.split_at_mut(block * n);
                for j in 0..n {
                    let from = &x[(at + j as isize * last.step) as usize..][..block];
                    for (k, x) in from.iter().enumerate() {
                        rows[k * n + j] = *x;
                    }
                }
                rest = after;
                row += block;
                continue;
            }
            let length = (n - column).min(rest.len());
            let (line, after) = rest.split_at_mut(length);
            match last.step {
                0 => line.fill(x[at as usize]),
                1 => line.copy_from_slice(&x[at as usize..][..length]),
                step => {
                    for (j, y) in line.iter_mut().enumerate() {
                        *y = x[(at + j as isize * step) as usize];
                    }
                }
            }
            rest = after;
            row += 1;
            column = 0;
        }
    });
}
