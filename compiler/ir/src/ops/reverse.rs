//! `tf.reverse`: the elements in reverse order along axes.

use ndarray::Axis;

use crate::build::{Lower, Lowering, Value};
use crate::graph::{AttrKind, Eval, Gradient, Prim, PrimCall, Type};
use crate::interp::{Array, Evaluation, each};
use crate::ops::op::{Call, Elements, Kind, Op, Param, RuleError};
use crate::ops::rules::primitive::{arity, of_class};
use crate::ops::rules::shapes::distinct_axes;
use crate::ops::rules::{axes, exact_dim};
use crate::types::{Class, TensorType};

/// x from last to first along each of `axis`.
pub(super) static OP: Op = Op {
    name: "reverse",
    aliases: &[],
    doc: "The elements in reverse order along the given axes.",
    params: &[
        Param::required("x", Kind::Tensor(Elements::Same("T", Class::Any))),
        Param::required("axis", Kind::Ints),
    ],
    random: false,
    lower: Lower::By(lower),
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    let x = call.tensor("x");
    for i in axes("axis", &call.ints("axis")?, x.rank())? {
        exact_dim("x", &x.shape.0[i])?;
    }
    Ok(vec![x.clone()])
}

fn lower<'g>(l: &Lowering<'g, '_>) -> Result<Vec<Value<'g>>, RuleError> {
    let x = l.value("x");
    let axes = axes("axis", &l.call.ints("axis")?, x.rank())?;
    Ok(vec![x.reverse(&axes)])
}

/// The primitive. VJP: dx = dy reversed.
pub(crate) static PRIM: Prim = Prim {
    name: "reverse",
    attrs: &[("axes", AttrKind::Sizes)],
    infer: infer_prim,
    gradient: Gradient::Each(&[Some(|g| g.dy().reverse(g.sizes("axes")))]),
    eval: Eval::Tensors(|e| Ok(vec![eval(e)])),
};

fn infer_prim(call: &PrimCall<'_>) -> Result<Vec<Type>, String> {
    let [x] = arity(call)?;
    of_class(x, Class::Any)?;
    distinct_axes(call.sizes("axes"), x)?;
    Ok(vec![x.clone()])
}

fn eval(e: &Evaluation<'_>) -> Array {
    each!(e.x(0), x => {
        let mut view = x.view();
        e.sizes("axes").iter().for_each(|axis| view.invert_axis(Axis(*axis)));
        view.to_owned().into()
    })
}
