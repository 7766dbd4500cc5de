//! Windows that move over images: convolutions and pools.

use serde_json::Value as Json;

use super::request::{OpRequest, applied, ints, named, x};
use super::{Row, by};
use crate::oracle::fields::shortened;
use crate::oracle::tensors::integer;

pub(super) const ROWS: &[Row] = &[
    by("conv2d", |a| conv2d(a, "nn.conv2d", 2)),
    by("depthwise_conv2d", |a| conv2d(a, "nn.depthwise_conv2d", 2)),
    by("separable_conv2d", separable_conv2d),
    by("conv2d_transpose", conv2d_transpose),
    by("conv1d", conv1d),
    by("max_pool2d", |a| pool(a, "max_pool2d")),
    by("max_pool", |a| pool(a, "max_pool2d")),
    by("avg_pool2d", |a| pool(a, "avg_pool2d")),
    by("avg_pool", |a| pool(a, "avg_pool2d")),
];

/// Where the channels are.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Layout {
    Last,
    First,
}

impl Layout {
    /// What `data_format` says; channels are last if nothing is said.
    pub(super) fn of(request: &OpRequest<'_>) -> Result<Layout, String> {
        match request.word("data_format")?.as_deref() {
            None | Some("nhwc" | "nwc" | "n...c" | "channels_last") => Ok(Layout::Last),
            Some("nchw" | "ncw" | "nc..." | "channels_first") => Ok(Layout::First),
            Some(other) => Err(format!("`data_format` \"{other}\" is not known")),
        }
    }

    /// A tensor with its channels moved to the end.
    pub(super) fn with_channels_last(self, value: String, rank: usize) -> String {
        match self {
            Layout::Last => value,
            Layout::First => {
                let order = (2..rank).chain([1]);
                format!(
                    "transpose({value}, perm: {})",
                    ints([0].into_iter().chain(order))
                )
            }
        }
    }

    /// A tensor with its channels moved from the end to where they were.
    pub(super) fn as_it_was(self, value: String, rank: usize) -> String {
        match self {
            Layout::Last => value,
            Layout::First => {
                let order = [0, rank - 1].into_iter().chain(1..rank - 1);
                format!("transpose({value}, perm: {})", ints(order))
            }
        }
    }

    /// The entries for space of a list that may have some for batch and channels, which must be `neutral`.
    fn space<T: PartialEq + Clone>(
        self,
        name: &str,
        list: &[T],
        space: usize,
        neutral: &T,
    ) -> Result<Vec<T>, String> {
        match list.len() {
            1 => Ok(vec![list[0].clone(); space]),
            n if n == space => Ok(list.to_vec()),
            n if n == space + 2 => {
                let (others, from) = match self {
                    Layout::Last => ([0, n - 1], 1),
                    Layout::First => ([0, 1], 2),
                };
                match others.iter().all(|i| list[*i] == *neutral) {
                    true => Ok(list[from..from + space].to_vec()),
                    false => Err(format!("`{name}` concerns batch or channels")),
                }
            }
            n => Err(format!("`{name}` has {n} entries")),
        }
    }

    /// An argument of one number for each direction in space.
    fn numbers(
        self,
        request: &OpRequest<'_>,
        name: &str,
        space: usize,
    ) -> Result<Option<Vec<i64>>, String> {
        let list = request.ints(name)?;
        list.map(|list| self.space(name, &list, space, &1))
            .transpose()
    }

    /// `padding`: a word, or explicit pairs, which the language calls `pads`.
    fn padding(self, request: &OpRequest<'_>) -> Result<String, String> {
        let json = request.args.need("padding")?;
        let Json::Array(list) = json else {
            let word = request.word("padding")?.unwrap_or_default();
            return match word.as_str() {
                "same" | "valid" => Ok(named("padding", format!("{word:?}"))),
                other => Err(format!("`padding` \"{other}\" is not known")),
            };
        };
        let pair = |json: &Json| match json.as_array().map(Vec::as_slice) {
            Some([low, high]) => Ok([integer(low)?, integer(high)?]),
            _ => Err(format!("`padding`: {} is no pair", shortened(json))),
        };
        let pairs = list.iter().map(pair).collect::<Result<Vec<_>, _>>()?;
        let pads = self.space("padding", &pairs, 2, &[0, 0])?;
        Ok(named("pads", ints(pads.into_iter().map(ints))))
    }

    /// Strides, padding and dilations of a window over height and width.
    fn window(self, request: &OpRequest<'_>) -> Result<Vec<String>, String> {
        let mut given = vec![self.padding(request)?];
        for name in ["strides", "dilations"] {
            let pair = self.numbers(request, name, 2)?;
            given.extend(pair.map(|pair| named(name, ints(pair))));
        }
        Ok(given)
    }
}

fn conv2d(request: &OpRequest<'_>, name: &str, inputs: usize) -> Result<String, String> {
    request.arity(inputs)?;
    let layout = Layout::of(request)?;
    let image = layout.with_channels_last(x(0), 4);
    let call = applied(name, [image, x(1)], layout.window(request)?);
    Ok(layout.as_it_was(call, 4))
}

fn separable_conv2d(request: &OpRequest<'_>) -> Result<String, String> {
    request.arity(3)?;
    let layout = Layout::of(request)?;
    let image = layout.with_channels_last(x(0), 4);
    let window = layout.window(request)?;
    let plain = |given: &String| given.starts_with("strides") || given.starts_with("padding");
    let call = match window.iter().all(plain) {
        true => applied("nn.separable_conv2d", [image, x(1), x(2)], window),
        // The function takes neither dilations nor explicit padding: it is composed of these two.
        false => {
            let deep = applied("nn.depthwise_conv2d", [image, x(1)], window);
            applied("nn.conv2d", [deep, x(2)], [])
        }
    };
    Ok(layout.as_it_was(call, 4))
}

fn conv2d_transpose(request: &OpRequest<'_>) -> Result<String, String> {
    request.arity(2)?;
    let layout = Layout::of(request)?;
    let mut given = vec![layout.padding(request)?];
    if let Some(strides) = layout.numbers(request, "strides", 2)? {
        given.push(named("strides", ints(strides)));
    }
    if layout
        .numbers(request, "dilations", 2)?
        .is_some_and(|pair| pair != [1, 1])
    {
        return Err("`dilations` are not known to the transpose".to_owned());
    }
    if let Some(shape) = request.ints("output_shape")? {
        let shape = match (layout, shape.as_slice()) {
            (Layout::First, &[n, c, h, w]) => vec![n, h, w, c],
            _ => shape,
        };
        given.push(named("output_shape", ints(shape)));
    }
    let call = applied(
        "nn.conv2d_transpose",
        [layout.with_channels_last(x(0), 4), x(1)],
        given,
    );
    Ok(layout.as_it_was(call, 4))
}

fn conv1d(request: &OpRequest<'_>) -> Result<String, String> {
    request.arity(2)?;
    let layout = Layout::of(request)?;
    let mut given = vec![layout.padding(request)?];
    for name in ["stride", "dilations"] {
        let one = layout.numbers(request, name, 1)?;
        given.extend(one.map(|one| named(name, one[0])));
    }
    let call = applied(
        "nn.conv1d",
        [layout.with_channels_last(x(0), 3), x(1)],
        given,
    );
    Ok(layout.as_it_was(call, 3))
}

fn pool(request: &OpRequest<'_>, name: &str) -> Result<String, String> {
    request.arity(1)?;
    let layout = Layout::of(request)?;
    let mut given = Vec::new();
    for size in ["ksize", "strides"] {
        let pair = layout.numbers(request, size, 2)?;
        let pair = pair.ok_or_else(|| format!("`{size}` is not given"))?;
        given.push(named(size, ints(pair)));
    }
    given.push(layout.padding(request)?);
    let call = applied(name, [layout.with_channels_last(x(0), 4)], given);
    Ok(layout.as_it_was(call, 4))
}
