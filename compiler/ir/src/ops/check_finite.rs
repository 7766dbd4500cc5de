//! Run-time check for NaN and infinities, as `tf.debugging.check_numerics` does it.

use ndarray::arr0;

use crate::graph::{AttrKind, Eval, Gradient, Prim, PrimCall, Type};
use crate::interp::{Array, EvalError, Evaluation, NotFinite};
use crate::ops::rules::primitive::{arity, of_class};
use crate::types::{Class, DType};

/// True, if all elements are finite; else evaluation fails, and the error is a [`NotFinite`] with the name. The result is a scalar, so
/// that a fetch of the check costs nothing.
pub(crate) static PRIM: Prim = Prim {
    name: "check_finite",
    attrs: &[("name", AttrKind::String)],
    infer,
    gradient: Gradient::None,
    eval: Eval::Tensors(eval),
};

fn infer(call: &PrimCall<'_>) -> Result<Vec<Type>, String> {
    let [x] = arity(call)?;
    of_class(x, Class::Float)?;
    Ok(vec![Type::scalar(DType::Bool)])
}

fn eval(e: &Evaluation<'_>) -> Result<Vec<Array>, EvalError> {
    match NotFinite::find(e.string("name"), e.x(0).float().iter().copied()) {
        Some(found) => Err(EvalError::not_finite(found)),
        None => Ok(vec![arr0(true).into_dyn().into()]),
    }
}
