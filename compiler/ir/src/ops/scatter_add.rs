//! Row scatter-add (`tf.tensor_scatter_nd_add` with indices of depth 1): rows accumulated at indices.

use crate::graph::{Eval, Gradient, Prim, PrimCall, Type};
use crate::interp::{Array, EvalError, Evaluation};
use crate::ops::rules::arrays::{scatter_operands, scatter_rows};
use crate::ops::rules::primitive::{arity, of_class};
use crate::ops::rules::shapes::rows_at;
use crate::types::Class;

/// x with rows added to its own at the indices; rows of a repeated index accumulate. VJP: dx = dy, drows = gather(dy) at
/// the indices.
pub(crate) static PRIM: Prim = Prim {
    name: "scatter_add",
    attrs: &[],
    infer: |call| infer(call, Class::Number),
    gradient: Gradient::Each(&[Some(|g| g.dy()), None, Some(|g| g.dy().take(g.x(1)))]),
    eval: Eval::Tensors(eval),
};

/// Type inference of primitives that take a tensor, indices, and a row for each.
pub(super) fn infer(call: &PrimCall<'_>, class: Class) -> Result<Vec<Type>, String> {
    let [x, indices, rows] = arity(call)?;
    infer_rows(x, indices, rows, class)
}

/// The operand check of [`infer`], for primitives that take more operands.
pub(super) fn infer_rows(
    x: &Type,
    indices: &Type,
    rows: &Type,
    class: Class,
) -> Result<Vec<Type>, String> {
    of_class(x, class)?;
    let expected = Type::new(x.dtype, &rows_at(x, indices)?);
    match *rows == expected {
        true => Ok(vec![x.clone()]),
        false => Err(format!("the rows must be {expected}, not {rows}")),
    }
}

fn eval(e: &Evaluation<'_>) -> Result<Vec<Array>, EvalError> {
    let (targets, rows) = scatter_operands(e)?;
    Ok(vec![match (e.x(0), &rows) {
        (Array::Float(x), Array::Float(rows)) => {
            e.floats(scatter_rows(x, &targets, rows, |sum, x| *sum += x))
        }
        (x, rows) => e.ints(scatter_rows(x.int(), &targets, rows.int(), |sum, n| {
            *sum = sum.wrapping_add(*n);
        })),
    }])
}
