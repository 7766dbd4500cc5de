//! The VJP of sum pooling: `tf.raw_ops.AvgPoolGrad` without the division.

use ndarray::ArrayD;

use crate::graph::{AttrKind, Eval, Gradient, Prim};
use crate::interp::{Array, EvalError, Evaluation};
use crate::ops::rules::convolution::flat;
use crate::ops::rules::pools::{Pooling, pooled, window};
use crate::ops::rules::primitive::arity;
use crate::ops::rules::shapes;
use crate::types::Class;

/// dx = Σ dy over the windows that cover the element, for each element of a tensor of the shape.
pub(crate) static PRIM: Prim = Prim {
    name: "sum_pool2d_grad",
    attrs: &[
        ("shape", AttrKind::Sizes),
        ("ksize", AttrKind::Sizes),
        ("strides", AttrKind::Sizes),
        ("pads", AttrKind::Pairs),
    ],
    infer: |call| {
        let [dy] = arity(call)?;
        let x = dy.with_shape(call.sizes("shape"));
        let expected = pooled(call, &x, Class::Float)?;
        match expected == *dy {
            true => shapes::one_result(x.dtype, x.shape),
            false => Err(format!(
                "the pool makes {expected}, but the cotangent is {dy}"
            )),
        }
    },
    gradient: Gradient::Each(&[Some(|g| g.dy().sum_pool2d(&window(&g.attrs)))]),
    eval: Eval::Tensors(eval),
};

fn eval(e: &Evaluation<'_>) -> Result<Vec<Array>, EvalError> {
    let dy = flat(e.x(0));
    let mut dx = ArrayD::zeros(e.shape());
    let sums = dx.as_slice_mut().expect("a new array is in order");
    Pooling::of(e, e.sizes("shape")).each(|y, under| under.for_each(|i| sums[i] += dy[y]));
    Ok(vec![e.floats(dx)])
}
