//! Convolution over height and width.

use crate::ops::op::{Call, Elements, Kind, Op, Param, RuleError};
use crate::ops::rules::{Window, dims, exact_dim, fits, same_dim};
use crate::types::{Class, TensorType};

/// Σ input · filters under each place of the window (not mirrored, as everywhere in learning).
pub(super) static OP: Op = Op {
    name: "conv2d",
    aliases: &[],
    doc: "The products of a moving window of the input [batch, height, width, channels] with the filters [height, width, channels in, channels out], summed.",
    params: &[
        Param::required("input", Kind::Tensor(Elements::Same("T", Class::Float))),
        Param::required("filters", Kind::Tensor(Elements::Same("T", Class::Float))),
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
    let [kh, kw, c_in, c_out] = dims(call, "filters")?;
    same_dim("the channels of `input` and `filters`", c, c_in)?;
    let kernel = [
        exact_dim("filters", kh)?.clone(),
        exact_dim("filters", kw)?.clone(),
    ];
    let window = Window::new(call, kernel, Window::pair(call, "dilations")?)?;
    let [h, w] = window.places(h, w)?;
    fits(
        call.tensor("input")
            .with_dims(vec![n.clone(), h, w, c_out.clone()]),
    )
}
