//! `tf.raw_ops.MaxPoolGradGrad`: one tensor sampled at the argmax of another under each window.

use ndarray::ArrayD;

use crate::graph::{AttrKind, Eval, Gradient, Prim};
use crate::interp::{Array, EvalError, Evaluation};
use crate::ops::rules::convolution::flat;
use crate::ops::rules::pools::{Pooling, above, pooled, window};
use crate::ops::rules::primitive::{alike, arity};
use crate::types::Class;

/// z at the first maximum of x under each window; 0 for an empty window.
pub(crate) static PRIM: Prim = Prim {
    name: "max_pool2d_pick",
    attrs: &[
        ("ksize", AttrKind::Sizes),
        ("strides", AttrKind::Sizes),
        ("pads", AttrKind::Pairs),
    ],
    infer: |call| {
        let [x, _] = arity(call)?;
        alike(call, Class::Float)?;
        Ok(vec![pooled(call, x, Class::Float)?])
    },
    gradient: Gradient::Each(&[
        None,
        Some(|g| g.x(0).max_pool2d_grad(g.dy(), &window(&g.attrs))),
    ]),
    eval: Eval::Tensors(eval),
};

fn eval(e: &Evaluation<'_>) -> Result<Vec<Array>, EvalError> {
    let (x, z) = (flat(e.x(0)), flat(e.x(1)));
    let argmax = Pooling::of(e, e.x(0).shape()).argmax_per_window(&x, above);
    let picked = argmax.into_iter().map(|i| i.map_or(0.0, |i| z[i]));
    let y = ArrayD::from_shape_vec(e.shape(), picked.collect());
    Ok(vec![e.floats(y.expect("an argmax for each element"))])
}
