//! Row scatter-update (`tf.tensor_scatter_nd_update` with indices of depth 1): rows replaced at indices.

use crate::autodiff::Backward;
use crate::build::Value;
use crate::graph::{Eval, Gradient, Prim};
use crate::interp::{Array, EvalError, Evaluation};
use crate::ops::rules::arrays::{both, scatter_operands, scatter_rows};
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
    let (targets, rows) = scatter_operands(e)?;
    Ok(vec![both!((e.x(0), &rows), (x, rows) => {
        scatter_rows(x, &targets, rows, |at, x| *at = *x).into()
    })])
}
