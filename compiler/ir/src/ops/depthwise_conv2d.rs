//! Convolution of each channel on its own.

use crate::ops::op::{Call, Elements, Kind, Op, Param, RuleError};
use crate::ops::rules::{Window, dims, exact_dim, fits, same_dim};
use crate::types::{Class, Dim, TensorType};

/// Σ input · filter under each place of the window, channel by channel.
pub(super) static OP: Op = Op {
    name: "depthwise_conv2d",
    aliases: &[],
    doc: "A convolution of each channel of the input [batch, height, width, channels] with its own filters [height, width, channels, results for each].",
    params: &[
        Param::required("input", Kind::Tensor(Elements::Same("T", Class::Float))),
        Param::required("filter", Kind::Tensor(Elements::Same("T", Class::Float))),
        Window::STRIDES,
        Window::PADDING,
        Window::DILATIONS,
        Window::PADS,
    ],
    random: false,
    lower: crate::build::MISSING,
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    let [n, h, w, c] = dims(call, "input")?;
    let [kh, kw, c_in, each] = dims(call, "filter")?;
    same_dim("the channels of `input` and `filter`", c, c_in)?;
    let kernel = [
        exact_dim("filter", kh)?.clone(),
        exact_dim("filter", kw)?.clone(),
    ];
    let window = Window::new(call, kernel, Window::pair(call, "dilations")?)?;
    let [h, w] = window.places(h, w)?;
    let c_out = exact_dim("input", c)?.mul(exact_dim("filter", each)?);
    let c_out = Dim::exact(c_out.ok_or_else(RuleError::overflow)?);
    fits(call.tensor("input").with_dims(vec![n.clone(), h, w, c_out]))
}
