//! Row scatter-update (`tf.tensor_scatter_nd_update` with indices of depth 1): rows replaced at indices.

use ndarray::Axis;

use crate::autodiff::Backward;
use crate::build::Value;
use crate::graph::{Eval, Gradient, Prim};
use crate::interp::{Array, EvalError, Evaluation};
use crate::ops::rules::arrays::{both, row_indices};
use crate::ops::scatter_add::infer;
use crate::types::Class;

/// x with rows in place of its own at the indices; the last row of a repeated index wins.
pub(crate) static PRIM: Prim = Prim {
    name: "scatter_set",
    attrs: &[],
    infer: |call| infer(call, Class::Any),
    // As in TensorFlow each row of a repeated index gets the cotangent of that index.
    gradient: Gradient::Each(&[Some(operand_vjp), None, Some(|g| g.dy().take(g.x(1)))]),
    eval: Eval::Tensors(eval),
};

/// The VJP with respect to x: dy, and 0 at the indices.
fn operand_vjp<'g>(g: &Backward<'g>) -> Value<'g> {
    let zeros = g.b.full(&g.x(2).ty(), 0.0);
    g.dy().scatter_set(g.x(1), zeros)
}

fn eval(e: &Evaluation<'_>) -> Result<Vec<Array>, EvalError> {
    let x = &e.types[0].shape;
    let targets = row_indices(e.x(1).int(), x[0])?;
    let rows = e.x(2).reshaped(&[&[targets.len()], &x[1..]].concat());
    Ok(vec![both!((e.x(0), &rows), (x, rows) => {
        let mut result = x.to_owned();
        for (target, row) in targets.iter().zip(rows.outer_iter()) {
            result.index_axis_mut(Axis(0), *target).assign(&row);
        }
        result.into()
    })])
}
