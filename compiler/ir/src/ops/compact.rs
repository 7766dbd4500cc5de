//! Stream compaction: the indices of the true elements of a boolean vector (`tf.where` with one argument).

use ndarray::{Array1, arr0};

use crate::graph::{Eval, Gradient, Prim, PrimCall, Type};
use crate::interp::{Array, EvalError, Evaluation};
use crate::ops::rules::primitive::arity;
use crate::ops::rules::shapes::one_result;
use crate::types::DType;

/// The indices (i64) of the true elements of a vector, padded with 0, and their number (i64).
pub(crate) static PRIM: Prim = Prim {
    name: "compact",
    attrs: &[],
    infer,
    gradient: Gradient::None,
    eval: Eval::Tensors(eval),
};

fn infer(call: &PrimCall<'_>) -> Result<Vec<Type>, String> {
    let [x] = arity(call)?;
    if x.dtype != DType::Bool || x.rank() != 1 {
        return Err(format!("the operand must be a vector of bool, not {x}"));
    }
    let mut types = one_result(DType::I64, x.shape.clone())?;
    types.push(Type::scalar(DType::I64));
    Ok(types)
}

fn eval(e: &Evaluation<'_>) -> Result<Vec<Array>, EvalError> {
    let mask = e.x(0).bool();
    let mut indices = Array1::zeros(mask.len());
    let mut count = 0;
    for (i, _) in mask.iter().enumerate().filter(|(_, set)| **set) {
        indices[count] = i as i64;
        count += 1;
    }
    Ok(vec![
        indices.into_dyn().into(),
        arr0(count as i64).into_dyn().into(),
    ])
}
