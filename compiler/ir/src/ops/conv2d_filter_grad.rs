//! `tf.raw_ops.Conv2DBackpropFilter`: the VJP of `conv2d` with respect to its filters.

use ndarray::ArrayD;

use crate::graph::{AttrKind, Eval, Gradient, Prim};
use crate::interp::{Array, EvalError, Evaluation};
use crate::ops::rules::convolution::{ConvGeometry, flat, infer_vjp, operands, window};

/// df[k, l, c, o] = Σ x[n, i s + k d - p, j s + l d - p, c] · dy[n, i, j, o]: bilinear, like the convolution.
pub(crate) static PRIM: Prim = Prim {
    name: "conv2d_filter_grad",
    attrs: &[
        ("shape", AttrKind::Sizes),
        ("strides", AttrKind::Sizes),
        ("pads", AttrKind::Pairs),
        ("dilations", AttrKind::Sizes),
        ("groups", AttrKind::Size),
    ],
    infer: |call| {
        let ([x, dy], window) = operands(call)?;
        let shape = call.sizes("shape");
        infer_vjp(dy, &ConvGeometry::new(&x.shape, shape, &window)?, shape)
    },
    gradient: Gradient::Each(&[
        Some(|g| {
            g.x(1)
                .conv2d_input_grad(g.dy(), &g.x(0).shape(), &window(&g.attrs))
        }),
        Some(|g| g.x(0).conv2d(g.dy(), &window(&g.attrs))),
    ]),
    eval: Eval::Tensors(eval),
};

fn eval(e: &Evaluation<'_>) -> Result<Vec<Array>, EvalError> {
    let geometry = ConvGeometry::of(e, e.x(0).shape(), e.sizes("shape"));
    let (x, dy) = (flat(e.x(0)), flat(e.x(1)));
    let mut df = ArrayD::zeros(e.shape());
    let sums = df.as_slice_mut().expect("a new array is in order");
    geometry.each_product(|x_at, f, y| sums[f] += x[x_at] * dy[y]);
    Ok(vec![e.floats(df)])
}
