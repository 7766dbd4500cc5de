//! Run-time bounds check of integers, as `tf.debugging.assert_greater_equal` and `assert_less` do it.

use crate::graph::{AttrKind, Eval, Gradient, Prim, PrimCall, Type};
use crate::interp::{Array, EvalError, Evaluation};
use crate::ops::rules::primitive::{arity, of_class};
use crate::types::Class;

/// x, if all its elements are in low..high; else evaluation fails.
pub(crate) static PRIM: Prim = Prim {
    name: "bounded",
    attrs: &[
        ("low", AttrKind::Int),
        ("high", AttrKind::Int),
        ("what", AttrKind::String),
    ],
    infer,
    gradient: Gradient::None,
    eval: Eval::Tensors(eval),
};

fn infer(call: &PrimCall<'_>) -> Result<Vec<Type>, String> {
    let [x] = arity(call)?;
    of_class(x, Class::Int)?;
    Ok(vec![x.clone()])
}

fn eval(e: &Evaluation<'_>) -> Result<Vec<Array>, EvalError> {
    let range = e.int("low")..e.int("high");
    match e.x(0).int().iter().find(|n| !range.contains(n)) {
        Some(n) => Err(EvalError(format!(
            "`{}`: {n} is not in {}..{}",
            e.string("what"),
            range.start,
            range.end
        ))),
        None => Ok(vec![e.x(0).clone()]),
    }
}
