//! `tf.nn.depthwise_conv2d`: depthwise convolution, one group for each channel.

use crate::build::{Lower, Lowering, Value};
use crate::ops::op::{Call, Elements, Kind, Op, Param, RuleError};
use crate::ops::rules::{Window, dims, exact_dim, fits, same_dim};
use crate::types::{Class, Dim, TensorType};

/// Σ input · filter at each position of the window, channel by channel.
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
    lower: Lower::By(lower),
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    let [n, h, w, c] = dims(call, "input")?;
    let [_, _, c_in, each] = dims(call, "filter")?;
    same_dim("the channels of `input` and `filter`", c, c_in)?;
    let [h, w] = moving_window(call)?.output_dims(h, w)?;
    let c_out = exact_dim("input", c)?.mul(exact_dim("filter", each)?);
    let c_out = Dim::exact(c_out.ok_or_else(RuleError::overflow)?);
    fits(call.tensor("input").with_dims(vec![n.clone(), h, w, c_out]))
}

fn moving_window<'a>(call: &Call<'a>) -> Result<Window<'a>, RuleError> {
    let [kh, kw, _, _] = dims(call, "filter")?;
    let kernel = [
        exact_dim("filter", kh)?.clone(),
        exact_dim("filter", kw)?.clone(),
    ];
    Window::new(call, kernel, Window::pair(call, "dilations")?)
}

/// A grouped convolution with one group for each channel.
fn lower<'g>(l: &Lowering<'g, '_>) -> Result<Vec<Value<'g>>, RuleError> {
    let (x, filter) = (l.masked("input", &[0], 0.0), l.value("filter"));
    let [kh, kw, c, each] = filter.shape()[..] else {
        unreachable!("the rule has seen the dimensions");
    };
    // Zero channels are one group of zero channels.
    let filters = filter.reshape(&[kh, kw, c.min(1), c * each]);
    let window = moving_window(l.call)?.convolution(&x.shape(), c.max(1))?;
    Ok(vec![x.conv2d(filters, &window)])
}
