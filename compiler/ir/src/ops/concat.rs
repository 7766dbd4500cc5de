//! `tf.concat`: tensors concatenated along an axis.

use ndarray::{ArcArray, ArrayD, Axis, IxDyn, concatenate};

use crate::autodiff::{Backward, Cotangent};
use crate::build::{Lower, Lowering, Value};
use crate::graph::{AttrKind, Eval, Gradient, Prim, PrimCall, Type};
use crate::interp::{Array, Evaluation};
use crate::ops::op::{Call, Elements, Kind, Op, Param, RuleError, RuleErrorKind};
use crate::ops::rules::primitive::of_class;
use crate::ops::rules::shapes::{axis_size, one_result};
use crate::ops::rules::{axis, dimensions, exact_dim, fits, same_dim};
use crate::types::{Class, Dim, TensorType};

/// The `values` concatenated along `axis`.
pub(super) static OP: Op = Op {
    name: "concat",
    aliases: &[],
    doc: "A list of tensors put one after the other along an axis.",
    params: &[
        Param::required("values", Kind::Tensors(Elements::Same("T", Class::Any))),
        Param::required("axis", Kind::Int),
    ],
    random: false,
    lower: Lower::By(lower),
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    let values = call.tensors("values");
    let first = &values[0];
    let along = axis("axis", call.int("axis")?, first.rank())?;
    let mut total = exact_dim("values", &first.shape.0[along])?.clone();
    for (i, other) in values.iter().enumerate().skip(1) {
        if other.rank() != first.rank() {
            return Err(RuleError::new(
                RuleErrorKind::RankMismatch,
                format!(
                    "tensors 0 and {i} differ: {} and {}",
                    dimensions(first.rank()),
                    dimensions(other.rank())
                ),
            )
            .at("values"));
        }
        for (j, (p, q)) in first.shape.0.iter().zip(&other.shape.0).enumerate() {
            if j != along {
                same_dim(format!("dimensions {j} of tensors 0 and {i}"), p, q)?;
            }
        }
        let size = exact_dim("values", &other.shape.0[along])?;
        total = total.add(size).ok_or_else(RuleError::overflow)?;
    }
    let mut shape = first.shape.clone();
    shape.0[along] = Dim::exact(total);
    fits(TensorType::new(first.dtype, shape))
}

fn lower<'g>(l: &Lowering<'g, '_>) -> Result<Vec<Value<'g>>, RuleError> {
    let values = l.values("values");
    let along = axis("axis", l.call.int("axis")?, values[0].rank())?;
    Ok(vec![l.b.concat(values, along)])
}

/// The primitive. VJP: each operand gets its slice of dy.
pub(crate) static PRIM: Prim = Prim {
    name: "concat",
    attrs: &[("axis", AttrKind::Size)],
    infer: infer_prim,
    gradient: Gradient::All(gradient),
    eval: Eval::Tensors(|e| Ok(vec![eval(e)])),
};

fn infer_prim(call: &PrimCall<'_>) -> Result<Vec<Type>, String> {
    let axis = call.size("axis");
    let Some(first) = call.operands.first() else {
        return Err("an operand is missing".to_owned());
    };
    of_class(first, Class::Any)?;
    let mut shape = first.shape.clone();
    let mut total = axis_size(first, axis)?;
    for other in &call.operands[1..] {
        let size = axis_size(other, axis)?;
        shape[axis] = size;
        if **other != first.with_shape(&shape) {
            return Err(format!(
                "{first} and {other} differ elsewhere than along axis {axis}"
            ));
        }
        let sum = total.checked_add(size);
        total = sum.ok_or("the result has more elements than a tensor may have (2^40)")?;
    }
    shape[axis] = total;
    one_result(first.dtype, shape)
}

/// The VJP: for each operand its slice of dy.
fn gradient<'g>(g: &Backward<'g>) -> Vec<Option<Cotangent<'g>>> {
    let axis = g.size("axis");
    let mut begin = 0;
    let piece = |(x, required): (&Value<'g>, &bool)| {
        let size = x.shape()[axis];
        begin += size;
        required.then(|| g.dy().narrow(axis, begin - size, size).into())
    };
    g.operands.iter().zip(&g.needs_grad).map(piece).collect()
}

fn eval(e: &Evaluation<'_>) -> Array {
    let axis = e.size("axis");
    match e.x(0) {
        Array::Float(_) => join(axis, e.operands.iter().map(Array::float)).into(),
        Array::Int(_) => join(axis, e.operands.iter().map(Array::int)).into(),
        Array::Bool(_) => join(axis, e.operands.iter().map(Array::bool)).into(),
    }
}

fn join<'a, T: Clone + 'a>(
    axis: usize,
    arrays: impl Iterator<Item = &'a ArcArray<T, IxDyn>>,
) -> ArrayD<T> {
    let views: Vec<_> = arrays.map(|a| a.view()).collect();
    concatenate(Axis(axis), &views).expect("the rule compared the shapes")
}
