//! `tf.nn.conv2d_transpose`: transposed convolution (deconvolution).

use crate::build::{Lower, Lowering, Value};
use crate::ops::op::{Call, Default, Elements, Kind, Op, Param, RuleError};
use crate::ops::rules::{Window, dims, exact_dim, exact_sizes, fits, length, same_dim};
use crate::types::{Class, TensorType};

/// The VJP of `conv2d` with respect to its input, as an operation.
pub(super) static OP: Op = Op {
    name: "conv2d_transpose",
    aliases: &[],
    doc: "The transpose of a convolution with the filters [height, width, channels out, channels in]: it spreads every element over a window.",
    params: &[
        Param::required("input", Kind::Tensor(Elements::Same("T", Class::Float))),
        Param::required("filters", Kind::Tensor(Elements::Same("T", Class::Float))),
        Param::optional("output_shape", Kind::Ints),
        Window::STRIDES,
        Param::with(
            "padding",
            Kind::Word(&["same", "valid"]),
            Default::Word("same"),
        ),
    ],
    random: false,
    lower: Lower::By(lower),
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    let [n, h, w, c] = dims(call, "input")?;
    let [_, _, c_out, c_in] = dims(call, "filters")?;
    same_dim("the channels of `input` and `filters`", c, c_in)?;
    let window = moving_window(call)?;
    let input = call.tensor("input");
    let Some(requested) = call.sizes_opt("output_shape") else {
        let [h, w] = window.input_dims(h, w)?;
        return fits(input.with_dims(vec![n.clone(), h, w, c_out.clone()]));
    };
    length(
        "output_shape",
        requested.len(),
        4,
        "dimension of the result",
    )?;
    let shape = exact_sizes("output_shape", requested)?;
    let [to_n, to_h, to_w, to_c] = shape.0.as_slice() else {
        unreachable!("the length was checked");
    };
    let convolved = window.output_dims(to_h, to_w)?;
    for (name, given, needed) in [
        ("the batch of the result and of `input`", to_n, n),
        (
            "the height that `output_shape` needs and that of `input`",
            &convolved[0],
            h,
        ),
        (
            "the width that `output_shape` needs and that of `input`",
            &convolved[1],
            w,
        ),
        ("the channels of the result and of `filters`", to_c, c_out),
    ] {
        same_dim(name, given, needed).map_err(|e| e.at("output_shape"))?;
    }
    fits(input.with_dims(shape.0))
}

fn moving_window<'a>(call: &Call<'a>) -> Result<Window<'a>, RuleError> {
    let [kh, kw, _, _] = dims(call, "filters")?;
    let kernel = [
        exact_dim("filters", kh)?.clone(),
        exact_dim("filters", kw)?.clone(),
    ];
    Window::without_pads(call, kernel)
}

fn lower<'g>(l: &Lowering<'g, '_>) -> Result<Vec<Value<'g>>, RuleError> {
    let input = l.masked("input", &[0, 3], 0.0);
    let filters = l.masked("filters", &[2, 3], 0.0);
    let shape = l.shape(0);
    let window = moving_window(l.call)?.convolution(&shape, 1)?;
    Ok(vec![input.conv2d_input_grad(filters, &shape, &window)])
}
