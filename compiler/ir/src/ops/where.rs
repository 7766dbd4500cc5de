//! `tf.where`: elements of x or of y, selected by a boolean condition.

use ndarray::Zip;

use crate::build::Lower;
use crate::graph::{Eval, Gradient, Prim, PrimCall, Type};
use crate::interp::{Array, Evaluation};
use crate::ops::op::{Call, Elements, Kind, Op, Param, RuleError};
use crate::ops::rules::arrays::both;
use crate::ops::rules::broadcast;
use crate::ops::rules::primitive::{arity, of_class};
use crate::types::{Class, DType, TensorType};

/// x where `condition` is true, else y.
pub(super) static OP: Op = Op {
    name: "where",
    aliases: &[],
    doc: "The elements of `x` where `condition` is true, those of `y` where it is not; all three are broadcast.",
    params: &[
        Param::required("condition", Kind::Tensor(Elements::Only(DType::Bool))),
        Param::required("x", Kind::Tensor(Elements::Same("T", Class::Any))),
        Param::required("y", Kind::Tensor(Elements::Same("T", Class::Any))),
    ],
    random: false,
    lower: Lower::Elementwise(&PRIM),
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    let (x, y) = (call.tensor("x"), call.tensor("y"));
    let both = broadcast(&x.shape, &y.shape)?;
    let shape = broadcast(&call.tensor("condition").shape, &both)?;
    Ok(vec![TensorType::new(x.dtype, shape)])
}

/// The primitive. VJP: the selected operand gets dy, the other 0.
pub(crate) static PRIM: Prim = Prim {
    name: "select",
    attrs: &[],
    infer: infer_prim,
    gradient: Gradient::Each(&[
        None,
        Some(|g| g.x(0).select(g.dy(), g.dy().like(0.0))),
        Some(|g| g.x(0).select(g.dy().like(0.0), g.dy())),
    ]),
    eval: Eval::Tensors(|e| Ok(vec![eval(e)])),
};

fn infer_prim(call: &PrimCall<'_>) -> Result<Vec<Type>, String> {
    let [condition, yes, no] = arity(call)?;
    of_class(yes, Class::Any)?;
    if yes != no {
        return Err(format!(
            "the choices must be of one type, not {yes} and {no}"
        ));
    }
    let expected = yes.with_dtype(DType::Bool);
    match *condition == expected {
        true => Ok(vec![yes.clone()]),
        false => Err(format!("the condition must be {expected}, not {condition}")),
    }
}

fn eval(e: &Evaluation<'_>) -> Array {
    let condition = e.x(0).bool();
    both!((e.x(1), e.x(2)), (yes, no) => {
        let choice = Zip::from(condition).and(yes).and(no);
        choice.map_collect(|c, yes, no| if *c { *yes } else { *no }).into()
    })
}
