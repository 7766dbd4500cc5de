//! `tf.raw_ops.Conv2DBackpropInput`: the VJP of `conv2d` with respect to its input.

use ndarray::ArrayD;

use crate::graph::{AttrKind, Eval, Gradient, Prim};
use crate::interp::{Array, EvalError, Evaluation};
use crate::ops::rules::convolution::{ConvGeometry, flat, infer_vjp, operands, window};

/// dx[n, i s + k d - p, j s + l d - p, c] = Σ dy[n, i, j, o] · f[k, l, c, o]: bilinear, like the convolution.
pub(crate) static PRIM: Prim = Prim {
    name: "conv2d_input_grad",
    attrs: &[
        ("shape", AttrKind::Sizes),
        ("strides", AttrKind::Sizes),
        ("pads", AttrKind::Pairs),
        ("dilations", AttrKind::Sizes),
        ("groups", AttrKind::Size),
    ],
    infer: |call| {
        let ([dy, filters], window) = operands(call)?;
        let shape = call.sizes("shape");
        infer_vjp(
            dy,
            &ConvGeometry::new(shape, &filters.shape, &window)?,
            shape,
        )
    },
    gradient: Gradient::Each(&[
        Some(|g| g.dy().conv2d(g.x(1), &window(&g.attrs))),
        Some(|g| {
            g.dy()
                .conv2d_filter_grad(g.x(0), &g.x(1).shape(), &window(&g.attrs))
        }),
    ]),
    eval: Eval::Tensors(eval),
};

fn eval(e: &Evaluation<'_>) -> Result<Vec<Array>, EvalError> {
    let geometry = ConvGeometry::of(e, e.sizes("shape"), e.x(1).shape());
    let (dy, filters) = (flat(e.x(0)), flat(e.x(1)));
    let mut dx = ArrayD::zeros(e.shape());
    let sums = dx.as_slice_mut().expect("a new array is in order");
    geometry.each_product(|x, f, y| sums[x] += dy[y] * filters[f]);
    Ok(vec![e.floats(dx)])
}
