//! Rows added at positions.

use ndarray::{Axis, Zip};

use crate::graph::{Eval, Gradient, Prim, PrimCall, Type};
use crate::interp::{Array, EvalError, Evaluation};
use crate::ops::rules::arrays::row_numbers;
use crate::ops::rules::primitive::{arity, of_class};
use crate::ops::rules::shapes::rows_at;
use crate::types::Class;

/// x with rows added to its own at the positions, those of a repeated position all.
pub(crate) static PRIM: Prim = Prim {
    name: "scatter_add",
    attrs: &[],
    infer: |call| infer(call, Class::Number),
    gradient: Gradient::Each(&[Some(|g| g.dy()), None, Some(|g| g.dy().take(g.x(1)))]),
    eval: Eval::Whole(eval),
};

/// The rule of primitives that take a tensor, positions, and a row for each.
pub(super) fn infer(call: &PrimCall<'_>, class: Class) -> Result<Vec<Type>, String> {
    let [x, indices, rows] = arity(call)?;
    infer_rows(x, indices, rows, class)
}

/// The same for primitives that take more.
pub(super) fn infer_rows(
    x: &Type,
    indices: &Type,
    rows: &Type,
    class: Class,
) -> Result<Vec<Type>, String> {
    of_class(x, class)?;
    let wanted = Type::new(x.dtype, &rows_at(x, indices)?);
    match *rows == wanted {
        true => Ok(vec![x.clone()]),
        false => Err(format!("the rows must be {wanted}, not {rows}")),
    }
}

fn eval(e: &Evaluation<'_>) -> Result<Vec<Array>, EvalError> {
    let x = &e.types[0].shape;
    let places = row_numbers(e.x(1).int(), x[0])?;
    let rows = e.x(2).reshaped(&[&[places.len()], &x[1..]].concat());
    Ok(vec![match (e.x(0), &rows) {
        (Array::Float(x), Array::Float(rows)) => {
            let mut sum = x.to_owned();
            for (place, row) in places.iter().zip(rows.outer_iter()) {
                let mut at = sum.index_axis_mut(Axis(0), *place);
                at += &row;
            }
            e.floats(sum)
        }
        (x, rows) => {
            let mut sum = x.int().to_owned();
            for (place, row) in places.iter().zip(rows.int().outer_iter()) {
                let at = sum.index_axis_mut(Axis(0), *place);
                Zip::from(at)
                    .and(row)
                    .for_each(|at, n| *at = at.wrapping_add(*n));
            }
            e.ints(sum)
        }
    }])
}
