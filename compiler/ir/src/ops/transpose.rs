//! `tf.transpose`: the dimensions permuted.

use crate::autodiff::Backward;
use crate::build::{Lower, Value};
use crate::graph::{AttrKind, Eval, Gradient, Prim, PrimCall, Type};
use crate::interp::{Array, Evaluation, each};
use crate::ops::op::{Call, Elements, Kind, Op, Param, RuleError};
use crate::ops::rules::primitive::{arity, of_class};
use crate::ops::rules::shapes::{axis_size, distinct_axes, one_per_dim};
use crate::ops::rules::{axes, length};
use crate::types::{Class, TensorType};

/// Dimension i of the result is dimension `perm`[i] of x.
pub(super) static OP: Op = Op {
    name: "transpose",
    aliases: &[],
    doc: "The dimensions in the order of `perm`, or from last to first.",
    params: &[
        Param::required("x", Kind::Tensor(Elements::Same("T", Class::Any))),
        Param::optional("perm", Kind::Ints),
    ],
    random: false,
    lower: Lower::By(|l| Ok(vec![l.value("x").transpose(&order(l.call)?)])),
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    let x = call.tensor("x");
    let dims = order(call)?.into_iter().map(|i| x.shape.0[i].clone());
    Ok(vec![x.with_dims(dims.collect())])
}

fn order(call: &Call<'_>) -> Result<Vec<usize>, RuleError> {
    let rank = call.tensor("x").rank();
    match call.ints_opt("perm")? {
        Some(perm) => {
            length("perm", perm.len(), rank, "dimension of `x`")?;
            axes("perm", &perm, rank)
        }
        None => Ok((0..rank).rev().collect()),
    }
}

/// The primitive. VJP: dx = dy under the inverse permutation.
pub(crate) static PRIM: Prim = Prim {
    name: "transpose",
    attrs: &[("perm", AttrKind::Sizes)],
    infer: infer_prim,
    gradient: Gradient::Each(&[Some(vjp)]),
    eval: Eval::Tensors(|e| Ok(vec![eval(e)])),
};

fn infer_prim(call: &PrimCall<'_>) -> Result<Vec<Type>, String> {
    let [x] = arity(call)?;
    of_class(x, Class::Any)?;
    let perm = call.sizes("perm");
    one_per_dim("perm", perm, x)?;
    distinct_axes(perm, x)?;
    let shape = perm.iter().map(|axis| axis_size(x, *axis));
    Ok(vec![x.with_shape(&shape.collect::<Result<Vec<_>, _>>()?)])
}

/// The VJP: dy under the inverse permutation.
fn vjp<'g>(g: &Backward<'g>) -> Value<'g> {
    g.dy().transpose(&inverse(g.sizes("perm")))
}

/// The inverse permutation.
pub(super) fn inverse(perm: &[usize]) -> Vec<usize> {
    let mut inverse = vec![0; perm.len()];
    for (to, from) in perm.iter().enumerate() {
        inverse[*from] = to;
    }
    inverse
}

fn eval(e: &Evaluation<'_>) -> Array {
    let perm = e.sizes("perm");
    each!(e.x(0), x => x.view().permuted_axes(perm).to_owned().into())
}
