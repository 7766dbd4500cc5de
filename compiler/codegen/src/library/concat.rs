//! Concatenation along an axis.

use trainspec_ir::interp::EvalError;

use super::elements::{Elem, any};
use super::{GRAIN, Routine, y};
use crate::exec::parallel;

/// Concatenates the operands along `axis`.
pub(super) fn concat(r: &mut Routine<'_>) -> Result<(), EvalError> {
    r.check();
    any!(r.results[0].dtype, T => run::<T>(r));
    Ok(())
}

fn run<T: Elem>(r: &mut Routine<'_>) {
    let axis = r.size("axis");
    // The run length of each operand: its contiguous elements for each index of the dimensions before the axis.
    let runs = &mut r.scratch.row_indices;
    runs.clear();
    let run = |shape: &[usize]| shape[axis..].iter().product::<usize>();
    runs.extend(r.types.iter().map(|ty| run(&ty.shape)));
    let total = run(&r.results[0].shape);
    let (operands, runs) = (r.operands, &r.scratch.row_indices);
    parallel::chunks_mut(r.pool, y::<T>(&mut r.outputs[0]), GRAIN, |i, part| {
        let (mut outer, mut within) = (i * GRAIN / total, i * GRAIN % total);
        let (mut rest, mut operand) = (part, 0);
        while !rest.is_empty() {
            let run = runs[operand];
            if within >= run {
                within -= run;
                operand += 1;
                if operand == runs.len() {
                    (operand, outer) = (0, outer + 1);
                }
                continue;
            }
            let x = T::of(&operands[operand]).expect("operands have the type of the result");
            let length = (run - within).min(rest.len());
            let (line, after) = rest.split_at_mut(length);
            line.copy_from_slice(&x[outer * run + within..][..length]);
            within += length;
            rest = after;
        }
    });
}
