//! `tf.raw_ops.MaxPoolGrad`: the VJP of `max_pool2d`.

use ndarray::ArrayD;

use crate::graph::{AttrKind, Eval, Gradient, Prim};
use crate::interp::{Array, EvalError, Evaluation};
use crate::ops::rules::convolution::flat;
use crate::ops::rules::pools::{Pooling, above, pooled, window};
use crate::ops::rules::primitive::arity;
use crate::types::Class;

/// `dy` goes to the first maximum of `x` under each window, as in TensorFlow's CPU kernel.
pub(crate) static PRIM: Prim = Prim {
    name: "max_pool2d_grad",
    attrs: &[
        ("ksize", AttrKind::Sizes),
        ("strides", AttrKind::Sizes),
        ("pads", AttrKind::Pairs),
    ],
    infer: |call| {
        let [x, dy] = arity(call)?;
        let expected = pooled(call, x, Class::Float)?;
        match expected == *dy {
            true => Ok(vec![x.clone()]),
            false => Err(format!(
                "the pool makes {expected}, but the cotangent is {dy}"
            )),
        }
    },
    gradient: Gradient::Each(&[
        None,
        Some(|g| g.x(0).max_pool2d_pick(g.dy(), &window(&g.attrs))),
    ]),
    eval: Eval::Tensors(eval),
};

fn eval(e: &Evaluation<'_>) -> Result<Vec<Array>, EvalError> {
    let (x, dy) = (flat(e.x(0)), flat(e.x(1)));
    let argmax = Pooling::of(e, e.x(0).shape()).argmax_per_window(&x, above);
    let mut dx = ArrayD::zeros(e.shape());
    let sums = dx.as_slice_mut().expect("a new array is in order");
    for (maximum, dy) in argmax.into_iter().zip(dy) {
        if let Some(i) = maximum {
            sums[i] += dy;
        }
    }
    Ok(vec![e.floats(dx)])
}
