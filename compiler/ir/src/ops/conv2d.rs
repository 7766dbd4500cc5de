//! `tf.nn.conv2d`: 2-D convolution (cross-correlation) of NHWC images with HWIO filters.

use ndarray::ArrayD;

use crate::build::{Lower, Lowering, Value};
use crate::graph::{AttrKind, Eval, Gradient, Prim};
use crate::interp::{Array, EvalError, Evaluation};
use crate::ops::op::{Call, Elements, Kind, Op, Param, RuleError};
use crate::ops::rules::convolution::{ConvGeometry, flat, operands, window};
use crate::ops::rules::shapes::one_result;
use crate::ops::rules::{Window, dims, exact_dim, fits, same_dim};
use crate::types::{Class, TensorType};

/// Σ input · filters at each position of the window (cross-correlation: the filters are not mirrored).
pub(super) static OP: Op = Op {
    name: "conv2d",
    aliases: &[],
    doc: "The convolution of the input [batch, height, width, channels] with the filters [height, width, channels in, channels out].",
    params: &[
        Param::required("input", Kind::Tensor(Elements::Same("T", Class::Float))),
        Param::required("filters", Kind::Tensor(Elements::Same("T", Class::Float))),
        Window::STRIDES,
        Window::PADDING,
        Window::DILATIONS,
        Window::PADS,
    ],
    random: false,
    lower: Lower::By(lower),
    infer,
};

/// The primitive: y[n, i, j, o] = Σ x[n, i s + k d - p, j s + l d - p, c] · f[k, l, c, o], channels in groups. VJP:
/// `conv2d_input_grad` and `conv2d_filter_grad`.
pub(crate) static PRIM: Prim = Prim {
    name: "conv2d",
    attrs: &[
        ("strides", AttrKind::Sizes),
        ("pads", AttrKind::Pairs),
        ("dilations", AttrKind::Sizes),
        ("groups", AttrKind::Size),
    ],
    infer: |call| {
        let ([x, filters], window) = operands(call)?;
        let shape = ConvGeometry::new(&x.shape, &filters.shape, &window)?.shape();
        one_result(x.dtype, shape.to_vec())
    },
    gradient: Gradient::Each(&[
        Some(|g| {
            g.dy()
                .conv2d_input_grad(g.x(1), &g.x(0).shape(), &window(&g.attrs))
        }),
        Some(|g| {
            g.x(0)
                .conv2d_filter_grad(g.dy(), &g.x(1).shape(), &window(&g.attrs))
        }),
    ]),
    eval: Eval::Tensors(eval),
};

fn eval(e: &Evaluation<'_>) -> Result<Vec<Array>, EvalError> {
    let geometry = ConvGeometry::of(e, e.x(0).shape(), e.x(1).shape());
    let (x, filters) = (flat(e.x(0)), flat(e.x(1)));
    let mut y = ArrayD::zeros(e.shape());
    let sums = y.as_slice_mut().expect("a new array is in order");
    geometry.each_product(|x_at, f, y_at| sums[y_at] += x[x_at] * filters[f]);
    Ok(vec![e.floats(y)])
}

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    let [n, h, w, c] = dims(call, "input")?;
    let [_, _, c_in, c_out] = dims(call, "filters")?;
    same_dim("the channels of `input` and `filters`", c, c_in)?;
    let [h, w] = moving_window(call)?.output_dims(h, w)?;
    fits(
        call.tensor("input")
            .with_dims(vec![n.clone(), h, w, c_out.clone()]),
    )
}

fn moving_window<'a>(call: &Call<'a>) -> Result<Window<'a>, RuleError> {
    let [kh, kw, _, _] = dims(call, "filters")?;
    let kernel = [
        exact_dim("filters", kh)?.clone(),
        exact_dim("filters", kw)?.clone(),
    ];
    Window::new(call, kernel, Window::pair(call, "dilations")?)
}

fn lower<'g>(l: &Lowering<'g, '_>) -> Result<Vec<Value<'g>>, RuleError> {
    let x = l.masked("input", &[0, 3], 0.0);
    let filters = l.masked("filters", &[2, 3], 0.0);
    let window = moving_window(l.call)?.convolution(&x.shape(), 1)?;
    Ok(vec![x.conv2d(filters, &window)])
}
