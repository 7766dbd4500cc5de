//! Convolution of each channel on its own.

use crate::build::{Lower, Lowering, Value};
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
    lower: Lower::By(lower),
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    let [n, h, w, c] = dims(call, "input")?;
    let [_, _, c_in, each] = dims(call, "filter")?;
    same_dim("the channels of `input` and `filter`", c, c_in)?;
    let [h, w] = moving(call)?.places(h, w)?;
    let c_out = exact_dim("input", c)?.mul(exact_dim("filter", each)?);
    let c_out = Dim::exact(c_out.ok_or_else(RuleError::overflow)?);
    fits(call.tensor("input").with_dims(vec![n.clone(), h, w, c_out]))
}

fn moving<'a>(call: &Call<'a>) -> Result<Window<'a>, RuleError> {
    let [kh, kw, _, _] = dims(call, "filter")?;
    let kernel = [
        exact_dim("filter", kh)?.clone(),
        exact_dim("filter", kw)?.clone(),
    ];
    Window::new(call, kernel, Window::pair(call, "dilations")?)
}

/// A convolution in as many groups as there are channels.
fn lower<'g>(l: &Lowering<'g, '_>) -> Result<Vec<Value<'g>>, RuleError> {
    let (x, filter) = (l.masked("input", &[0], 0.0), l.value("filter"));
    let [kh, kw, c, each] = filter.shape()[..] else {
        unreachable!("the rule has seen the dimensions");
    };
    // No channels are one group of none.
    let filters = filter.reshape(&[kh, kw, c.min(1), c * each]);
    let window = moving(l.call)?.convolution(&x.shape(), c.max(1))?;
    Ok(vec![x.conv2d(filters, &window)])
}
