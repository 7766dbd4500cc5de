//! Rows replaced at positions.

use ndarray::Axis;

use crate::autodiff::Backward;
use crate::build::Value;
use crate::graph::{Eval, Gradient, Prim};
use crate::interp::{Array, EvalError, Evaluation};
use crate::ops::rules::arrays::{both, row_numbers};
use crate::ops::scatter_add::infer;
use crate::types::Class;

/// x with rows in place of its own at the positions; the last of a repeated position wins.
pub(crate) static PRIM: Prim = Prim {
    name: "scatter_set",
    attrs: &[],
    infer: |call| infer(call, Class::Any),
    // As in TensorFlow each row of a repeated position is given what flows into that position.
    gradient: Gradient::Each(&[Some(replaced), None, Some(|g| g.dy().take(g.x(1)))]),
    eval: Eval::Whole(eval),
};

/// dy, and 0 at the positions.
fn replaced<'g>(g: &Backward<'g>) -> Value<'g> {
    let zeros = g.b.full(&g.x(2).ty(), 0.0);
    g.dy().scatter_set(g.x(1), zeros)
}

fn eval(e: &Evaluation<'_>) -> Result<Vec<Array>, EvalError> {
    let x = &e.types[0].shape;
    let places = row_numbers(e.x(1).int(), x[0])?;
    let rows = e.x(2).reshaped(&[&[places.len()], &x[1..]].concat());
    Ok(vec![both!((e.x(0), &rows), (x, rows) => {
        let mut result = x.to_owned();
        for (place, row) in places.iter().zip(rows.outer_iter()) {
            result.index_axis_mut(Axis(0), *place).assign(&row);
        }
        result.into()
    })])
}
