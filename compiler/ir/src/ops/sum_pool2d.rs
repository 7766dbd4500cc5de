//! Sum pooling over height and width: `tf.nn.avg_pool2d` before the division.

use ndarray::ArrayD;

use crate::graph::{AttrKind, Eval, Gradient, Prim};
use crate::interp::{Array, EvalError, Evaluation};
use crate::ops::rules::convolution::flat;
use crate::ops::rules::pools::{Pooling, pooled, window};
use crate::ops::rules::primitive::arity;
use crate::types::Class;

/// Σ x over the window; padding adds nothing. VJP: `sum_pool2d_grad`.
pub(crate) static PRIM: Prim = Prim {
    name: "sum_pool2d",
    attrs: &[
        ("ksize", AttrKind::Sizes),
        ("strides", AttrKind::Sizes),
        ("pads", AttrKind::Pairs),
    ],
    infer: |call| {
        let [x] = arity(call)?;
        Ok(vec![pooled(call, x, Class::Float)?])
    },
    gradient: Gradient::Each(&[Some(|g| {
        g.dy().sum_pool2d_grad(&g.x(0).shape(), &window(&g.attrs))
    })]),
    eval: Eval::Tensors(eval),
};

fn eval(e: &Evaluation<'_>) -> Result<Vec<Array>, EvalError> {
    let x = flat(e.x(0));
    let mut y = ArrayD::zeros(e.shape());
    let sums = y.as_slice_mut().expect("a new array is in order");
    Pooling::of(e, e.x(0).shape()).each(|y, under| sums[y] = under.map(|i| x[i]).sum());
    Ok(vec![e.floats(y)])
}
