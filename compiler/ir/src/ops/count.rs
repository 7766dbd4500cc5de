//! The run-time count of a counted (bounded dynamic) dimension, like XLA's `GetDimensionSize`.

use crate::build::{Lower, Lowering, Value};
use crate::ops::op::{Call, Elements, Kind, Op, Param, RuleError, RuleErrorKind};
use crate::types::{Class, DType, TensorType};

/// The run-time count of the first counted dimension of x.
pub(super) static OP: Op = Op {
    name: "count",
    aliases: &[],
    doc: "How much is in use of the first dimension that has a run-time count.",
    params: &[Param::required(
        "x",
        Kind::Tensor(Elements::Same("T", Class::Any)),
    )],
    random: false,
    lower: Lower::By(lower),
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    if !call.tensor("x").shape.is_counted() {
        return Err(RuleError::new(
            RuleErrorKind::CountMismatch,
            "no dimension of `x` has a run-time count",
        )
        .at("x")
        .help("`shape_of(x)` gives the sizes"));
    }
    Ok(vec![TensorType::scalar(DType::I64)])
}

fn lower<'g>(l: &Lowering<'g, '_>) -> Result<Vec<Value<'g>>, RuleError> {
    let mut dims = l.call.tensor("x").shape.0.iter();
    let count = dims.find_map(|dim| l.count(dim));
    Ok(vec![count.expect("the rule found a counted dimension")])
}
