//! Row gather (`tf.gather` along axis 0); its gradient is sparse (IndexedSlices).

use ndarray::Axis;

use crate::autodiff::{Backward, Cotangent, IndexedSlices};
use crate::graph::{AttrKind, Eval, Gradient, Prim, PrimCall, Type};
use crate::interp::{Array, EvalError, Evaluation, each};
use crate::ops::rules::arrays::row_indices;
use crate::ops::rules::primitive::{arity, of_class};
use crate::ops::rules::shapes::{one_result, rows_at};
use crate::types::Class;

/// The rows (slices along the leading dimension) of x at each of the indices.
pub(crate) static PRIM: Prim = Prim {
    name: "take",
    attrs: &[("rows", AttrKind::Flag)],
    infer,
    gradient: Gradient::All(gradient),
    eval: Eval::Tensors(eval),
};

fn infer(call: &PrimCall<'_>) -> Result<Vec<Type>, String> {
    let [x, indices] = arity(call)?;
    of_class(x, Class::Any)?;
    one_result(x.dtype, rows_at(x, indices)?)
}

/// The VJP: IndexedSlices of the rows of dy at the indices. It stays sparse where `rows` says so, else it is made dense.
fn gradient<'g>(g: &Backward<'g>) -> Vec<Option<Cotangent<'g>>> {
    let (x, indices) = (g.x(0).shape(), g.x(1));
    let positions = indices.ty().elements();
    let rows = [&[positions], &x[1..]].concat();
    let cotangent = Cotangent::Sparse(IndexedSlices {
        indices: indices.reshape(&[positions]),
        rows: g.dy().reshape(&rows),
        length: x[0],
        count: None,
    });
    let cotangent = if g.flag("rows") {
        cotangent
    } else {
        cotangent.dense().into()
    };
    vec![Some(cotangent), None]
}

fn eval(e: &Evaluation<'_>) -> Result<Vec<Array>, EvalError> {
    let targets = row_indices(e.x(1).int(), e.x(0).shape()[0])?;
    let rows: Array = each!(e.x(0), a => a.select(Axis(0), &targets).into());
    Ok(vec![rows.reshaped(&e.results[0].shape)])
}
