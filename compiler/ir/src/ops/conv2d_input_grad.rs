//! From what flows into the result of a convolution to what flows into its input.

use ndarray::ArrayD;

use crate::graph::{AttrKind, Eval, Gradient, Prim};
use crate::interp::{Array, EvalError, Evaluation};
use crate::ops::rules::convolution::{Products, flat, gradient_of, operands, window};

/// dx[n, i s + k d - p, j s + l d - p, c] = Σ dy[n, i, j, o] · f[k, l, c, o]: linear in both, like the convolution.
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
        gradient_of(dy, &Products::new(shape, &filters.shape, &window)?, shape)
    },
    gradient: Gradient::Each(&[
        Some(|g| g.dy().conv2d(g.x(1), &window(&g.attrs))),
        Some(|g| {
            g.dy()
                .conv2d_filter_grad(g.x(0), &g.x(1).shape(), &window(&g.attrs))
        }),
    ]),
    eval: Eval::Whole(eval),
};

fn eval(e: &Evaluation<'_>) -> Result<Vec<Array>, EvalError> {
    let products = Products::of(e, e.sizes("shape"), e.x(1).shape());
    let (dy, filters) = (flat(e.x(0)), flat(e.x(1)));
    let mut dx = ArrayD::zeros(e.shape());
    let sums = dx.as_slice_mut().expect("a new array is in order");
    products.each(|x, f, y| sums[x] += dy[y] * filters[f]);
    Ok(vec![e.floats(dx)])
}
