//! `tf.squeeze`: dimensions of 1 removed.

use crate::build::Lower;
use crate::ops::op::{Call, Elements, Kind, Op, Param, RuleError, RuleErrorKind};
use crate::ops::rules::axes;
use crate::types::{Class, TensorType};

/// x without the dimensions of 1 at `axis`.
pub(super) static OP: Op = Op {
    name: "squeeze",
    aliases: &[],
    doc: "A tensor without the dimensions of 1, or without those of 1 at the given axes.",
    params: &[
        Param::required("x", Kind::Tensor(Elements::Same("T", Class::Any))),
        Param::optional("axis", Kind::Ints),
    ],
    random: false,
    lower: Lower::By(|l| Ok(vec![l.value("x").reshape(&l.shape(0))])),
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    let x = call.tensor("x");
    let gone = match call.ints_opt("axis")? {
        Some(list) => axes("axis", &list, x.rank())?,
        None => (0..x.rank()).filter(|i| x.shape.0[*i].is_one()).collect(),
    };
    if let Some(i) = gone.iter().find(|i| !x.shape.0[**i].is_one()) {
        return Err(RuleError::new(
            RuleErrorKind::ShapeMismatch,
            format!("dimension {i} is {}, not 1", x.shape.0[*i]),
        )
        .at("axis"));
    }
    let dims = x.shape.0.iter().enumerate();
    let kept = dims
        .filter(|(i, _)| !gone.contains(i))
        .map(|(_, d)| d.clone());
    Ok(vec![x.with_dims(kept.collect())])
}
