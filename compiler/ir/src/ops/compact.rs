//! The positions of truths.

use ndarray::{Array1, arr0};

use crate::graph::{Eval, Gradient, Prim, PrimCall, Type};
use crate::interp::{Array, EvalError, Evaluation};
use crate::ops::rules::primitive::arity;
use crate::ops::rules::shapes::made;
use crate::types::DType;

/// The positions (i64) of the true elements of a vector, with 0 behind them, and how many there are (i64).
pub(crate) static PRIM: Prim = Prim {
    name: "compact",
    attrs: &[],
    infer,
    gradient: Gradient::None,
    eval: Eval::Whole(eval),
};

fn infer(call: &PrimCall<'_>) -> Result<Vec<Type>, String> {
    let [x] = arity(call)?;
    if x.dtype != DType::Bool || x.rank() != 1 {
        return Err(format!("the operand must be a vector of bool, not {x}"));
    }
    let mut types = made(DType::I64, x.shape.clone())?;
    types.push(Type::scalar(DType::I64));
    Ok(types)
}

fn eval(e: &Evaluation<'_>) -> Result<Vec<Array>, EvalError> {
    let truths = e.x(0).bool();
    let mut positions = Array1::zeros(truths.len());
    let mut count = 0;
    for (i, _) in truths.iter().enumerate().filter(|(_, truth)| **truth) {
        positions[count] = i as i64;
        count += 1;
    }
    Ok(vec![
        positions.into_dyn().into(),
        arr0(count as i64).into_dyn().into(),
    ])
}
