//! Run-time bounds check of integers, as `tf.debugging.assert_greater_equal` and `assert_less` do it.

use crate::build::{Lower, Lowering, Value};
use crate::graph::{AttrKind, Eval, Gradient, Prim, PrimCall, Type};
use crate::interp::{Array, EvalError, Evaluation};
use crate::ops::op::{Call, Elements, Kind, Op, Param, RuleError};
use crate::ops::rules::primitive::{arity, of_class};
use crate::types::{Class, TensorType};

/// x, checked at run time to be in low..high.
pub(super) static OP: Op = Op {
    name: "assert_in_range",
    aliases: &[],
    doc: "The tensor as it is; the run fails where an element is not in `low..high`. `what` is what the error calls it.",
    params: &[
        Param::counting("x", Kind::Tensor(Elements::Same("T", Class::Int))),
        Param::required("low", Kind::Int),
        Param::required("high", Kind::Int),
        Param::required("what", Kind::String),
    ],
    random: false,
    lower: Lower::By(lower),
    infer: infer_op,
};

fn infer_op(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    Ok(vec![call.tensor("x").clone()])
}

/// Elements past a count are not checked.
fn lower<'g>(l: &Lowering<'g, '_>) -> Result<Vec<Value<'g>>, RuleError> {
    let (low, high) = (l.call.int("low")?, l.call.int("high")?);
    let axes: Vec<usize> = (0..l.call.tensor("x").rank()).collect();
    let x = l.masked("x", &axes, low as f64);
    Ok(vec![x.bounded(low, high, l.call.word("what"))])
}

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
        Some(n) => Err(EvalError::new(format!(
            "`{}`: {n} is not in {}..{}",
            e.string("what"),
            range.start,
            range.end
        ))),
        None => Ok(vec![e.x(0).clone()]),
    }
}
