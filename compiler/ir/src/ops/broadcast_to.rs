//! `tf.broadcast_to`: a tensor broadcast to a shape.

use crate::build::Lower;
use crate::graph::{AttrKind, Eval, Gradient, Prim, PrimCall, Type};
use crate::interp::{Array, Evaluation, each};
use crate::ops::op::{Call, Elements, Kind, Op, Param, RuleError, RuleErrorKind};
use crate::ops::rules::primitive::{arity, of_class};
use crate::ops::rules::shapes::one_result;
use crate::ops::rules::{broadcast, exact_sizes, fits};
use crate::types::{Class, TensorType};

/// x broadcast to `shape`.
pub(super) static OP: Op = Op {
    name: "broadcast_to",
    aliases: &[],
    doc: "A tensor with dimensions of 1 repeated, and dimensions put in front, to make up a shape.",
    params: &[
        Param::required("x", Kind::Tensor(Elements::Same("T", Class::Any))),
        Param::required("shape", Kind::Ints),
    ],
    random: false,
    lower: Lower::By(|l| Ok(vec![l.value("x").broadcast(&l.shape(0))])),
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    let x = call.tensor("x");
    let shape = exact_sizes("shape", call.sizes("shape"))?;
    if broadcast(&x.shape, &shape)? != shape {
        return Err(RuleError::new(
            RuleErrorKind::ShapeMismatch,
            format!("{} does not stretch to {shape}", x.shape),
        )
        .at("shape"));
    }
    fits(TensorType::new(x.dtype, shape))
}

/// The primitive. VJP: dx = dy summed over the broadcast dimensions.
pub(crate) static PRIM: Prim = Prim {
    name: "broadcast",
    attrs: &[("shape", AttrKind::Sizes)],
    infer: infer_prim,
    gradient: Gradient::Each(&[Some(|g| g.dy().unbroadcast(&g.x(0).shape()))]),
    eval: Eval::Tensors(|e| Ok(vec![eval(e)])),
};

fn infer_prim(call: &PrimCall<'_>) -> Result<Vec<Type>, String> {
    let [x] = arity(call)?;
    of_class(x, Class::Any)?;
    let shape = call.sizes("shape");
    let stretches = |(from, to): (&usize, &usize)| from == to || *from == 1;
    let last_first = x.shape.iter().rev().zip(shape.iter().rev());
    if x.rank() > shape.len() || !last_first.into_iter().all(stretches) {
        return Err(format!("{x} does not stretch to {shape:?}"));
    }
    one_result(x.dtype, shape.to_vec())
}

fn eval(e: &Evaluation<'_>) -> Array {
    let fits = "the rule compared the shapes";
    each!(e.x(0), x => x.broadcast(e.shape()).expect(fits).to_owned().into())
}
