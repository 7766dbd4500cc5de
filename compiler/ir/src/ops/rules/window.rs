//! Sliding windows of convolutions and pools over symbolic shapes: strides, dilations, SAME and VALID padding. The layout is
//! NHWC (batch, height, width, channels).

use crate::build::{Convolution, Pool};
use crate::ops::op::{Call, Default, Elements, Kind, Param, RuleError, RuleErrorKind};
use crate::ops::rules::checks::{at_least, dims, exact_dim, fits, not_negative};
use crate::size::Size;
use crate::types::{Class, Dim, TensorType};

/// Parameters of a pool over floats.
pub(in crate::ops) const POOL_FLOAT: &[Param] = &[
    input(Class::Float),
    Param::required("ksize", Kind::Ints),
    Window::STRIDES,
    Window::PADDING,
    Window::PADS,
];

/// Parameters of a pool over numbers.
pub(in crate::ops) const POOL_NUMBER: &[Param] = &[
    input(Class::Number),
    Param::required("ksize", Kind::Ints),
    Window::STRIDES,
    Window::PADDING,
    Window::PADS,
];

const fn input(class: Class) -> Param {
    Param::required("input", Kind::Tensor(Elements::Same("T", class)))
}

/// Type inference of a pool: one value for each window position.
pub(in crate::ops) fn pool(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    let [n, h, w, c] = dims(call, "input")?;
    let window = Window::of_pool(call)?;
    let [h, w] = window.output_dims(h, w)?;
    fits(
        call.tensor("input")
            .with_dims(vec![n.clone(), h, w, c.clone()]),
    )
}

/// A sliding window over height and width.
#[derive(Debug)]
pub(in crate::ops) struct Window<'a> {
    kernel: [Size; 2],
    strides: [i64; 2],
    dilations: [i64; 2],
    padding: Padding<'a>,
}

#[derive(Debug)]
enum Padding<'a> {
    Same,
    Valid,
    /// Before and after, for height and for width.
    Pads(&'a [(Size, Size); 2]),
}

impl<'a> Window<'a> {
    /// The strides along height and width.
    pub(in crate::ops) const STRIDES: Param = Param::with("strides", Kind::Ints, Default::Int(1));

    /// The dilations along height and width.
    pub(in crate::ops) const DILATIONS: Param =
        Param::with("dilations", Kind::Ints, Default::Int(1));

    /// The padding scheme, `same` or `valid`.
    pub(in crate::ops) const PADDING: Param = Param::with(
        "padding",
        Kind::Word(&["same", "valid"]),
        Default::Word("valid"),
    );

    /// Explicit padding, which replaces the scheme.
    pub(in crate::ops) const PADS: Param = Param::optional("pads", Kind::Pairs);

    /// A window as `strides`, `padding` and `pads` of the call have it.
    pub(in crate::ops) fn new(
        call: &Call<'a>,
        kernel: [Size; 2],
        dilations: [i64; 2],
    ) -> Result<Window<'a>, RuleError> {
        let padding = match call.pairs_opt("pads") {
            Some(pads) => {
                let wrong = |_| wrong_length("pads", "two pairs", pads.len());
                let pads: &[(Size, Size); 2] = pads.try_into().map_err(wrong)?;
                for (before, after) in pads {
                    at_least("pads", 0, before)?;
                    at_least("pads", 0, after)?;
                }
                Padding::Pads(pads)
            }
            None => Padding::of_word(call),
        };
        Ok(Window {
            kernel,
            strides: Window::pair(call, "strides")?,
            dilations,
            padding,
        })
    }

    /// The window of a pool, which must be larger than the padding so that no window position is empty.
    pub(in crate::ops) fn of_pool(call: &Call<'a>) -> Result<Window<'a>, RuleError> {
        let kernel = Window::pair(call, "ksize")?;
        let window = Window::new(call, kernel.map(Size::fixed), [1, 1])?;
        if let Padding::Pads(pads) = window.padding {
            for (pads, kernel) in pads.iter().zip(kernel) {
                let sides = [&pads.0, &pads.1].map(Size::value);
                if let Some(pad) = sides.into_iter().flatten().find(|n| *n >= kernel) {
                    return Err(RuleError::new(
                        RuleErrorKind::BadValue,
                        format!("`pads` must be less than the window, but {pad} is not less than {kernel}"),
                    )
                    .at("pads"));
                }
            }
        }
        Ok(window)
    }

    /// The window of an op that takes no `pads` and no `dilations`.
    pub(in crate::ops) fn without_pads(
        call: &Call<'a>,
        kernel: [Size; 2],
    ) -> Result<Window<'a>, RuleError> {
        Ok(Window {
            kernel,
            strides: Window::pair(call, "strides")?,
            dilations: [1, 1],
            padding: Padding::of_word(call),
        })
    }

    /// A parameter of one number for both directions, or of two: height and width.
    pub(in crate::ops) fn pair(
        call: &Call<'_>,
        param: &'static str,
    ) -> Result<[i64; 2], RuleError> {
        let pair = match *call.ints(param)?.as_slice() {
            [both] => [both, both],
            [h, w] => [h, w],
            ref other => {
                return Err(wrong_length(param, "one number or two", other.len()));
            }
        };
        for n in pair {
            at_least(param, 1, &Size::fixed(n))?;
        }
        Ok(pair)
    }

    /// The output height and width for an input of that height and width.
    pub(in crate::ops) fn output_dims(&self, h: &Dim, w: &Dim) -> Result<[Dim; 2], RuleError> {
        Ok([self.output_along(0, h)?, self.output_along(1, w)?])
    }

    fn output_along(&self, i: usize, dim: &Dim) -> Result<Dim, RuleError> {
        let what = ["height", "width"][i];
        let size = exact_dim("input", dim)?;
        let kernel = &self.kernel[i];
        if kernel.value().is_some_and(|k| k < 1) {
            return Err(RuleError::new(
                RuleErrorKind::ShapeMismatch,
                format!("the window's {what} is {kernel}, but must be 1 or more"),
            ));
        }
        let stride = Size::fixed(self.strides[i]);
        let padded = match self.padding {
            Padding::Same => {
                let output = size.ceil_div(&stride);
                return Ok(Dim::exact(not_negative(&format!("the {what}"), output)?));
            }
            Padding::Valid => Some(size.clone()),
            Padding::Pads(pads) => size.add(&pads[i].0).and_then(|s| s.add(&pads[i].1)),
        };
        let padded = padded.ok_or_else(RuleError::overflow)?;
        let span = self.span(i).ok_or_else(RuleError::overflow)?;
        let slack = padded.sub(&span).ok_or_else(RuleError::overflow)?;
        if slack.value().is_some_and(|n| n < 0) {
            return Err(RuleError::new(
                RuleErrorKind::NegativeSize,
                format!("the window's {what} of {span} does not fit into the input's of {padded}"),
            )
            .help("use `padding: \"same\"` or a smaller window"));
        }
        let output = slack
            .floor_div(&stride)
            .and_then(|n| n.add(&Size::fixed(1)));
        Ok(Dim::exact(output.ok_or_else(RuleError::overflow)?))
    }

    /// The extent of the dilated kernel: (kernel - 1) · dilation + 1.
    fn span(&self, i: usize) -> Option<Size> {
        let gaps = self.kernel[i].sub(&Size::fixed(1))?;
        gaps.mul(&Size::fixed(self.dilations[i]))?
            .add(&Size::fixed(1))
    }

    /// The attributes of a convolution of an input of static height and width.
    pub(in crate::ops) fn convolution(
        &self,
        input: &[usize],
        groups: usize,
    ) -> Result<Convolution, RuleError> {
        Ok(Convolution {
            strides: known(self.strides)?,
            pads: self.pads(input)?,
            dilations: known(self.dilations)?,
            groups,
        })
    }

    /// The attributes of a pool of an input of static height and width.
    pub(in crate::ops) fn pool(&self, input: &[usize]) -> Result<Pool, RuleError> {
        let [h, w] = &self.kernel;
        Ok(Pool {
            ksize: [known_size("ksize", h)?, known_size("ksize", w)?],
            strides: known(self.strides)?,
            pads: self.pads(input)?,
        })
    }

    /// The padding before and after an input [batch, height, width, channels].
    ///
    /// SAME padding is as TensorFlow has it: max((output - 1) · stride + span - input, 0) in total, the smaller half before.
    fn pads(&self, input: &[usize]) -> Result<[(usize, usize); 2], RuleError> {
        let strides = known(self.strides)?;
        let mut found = [(0, 0); 2];
        for i in 0..2 {
            found[i] = match self.padding {
                Padding::Valid => (0, 0),
                Padding::Pads(pads) => (
                    known_size("pads", &pads[i].0)?,
                    known_size("pads", &pads[i].1)?,
                ),
                Padding::Same => {
                    let Some(last) = input[i + 1].div_ceil(strides[i]).checked_sub(1) else {
                        continue;
                    };
                    let span = self.span(i).ok_or_else(RuleError::overflow)?;
                    let remaining = input[i + 1] - last * strides[i];
                    let total = known_size("filters", &span)?.saturating_sub(remaining);
                    (total / 2, total - total / 2)
                }
            };
        }
        Ok(found)
    }

    /// The output height and width of a transposed convolution without an explicit `output_shape`: those of which the
    /// window makes `h` and `w`. Of the several that fit, this is the one Keras takes.
    pub(in crate::ops) fn input_dims(&self, h: &Dim, w: &Dim) -> Result<[Dim; 2], RuleError> {
        Ok([self.input_along(0, h)?, self.input_along(1, w)?])
    }

    fn input_along(&self, i: usize, dim: &Dim) -> Result<Dim, RuleError> {
        let scaled = exact_dim("input", dim)?.mul(&Size::fixed(self.strides[i]));
        let kernel = &self.kernel[i];
        let overlap = match self.padding {
            Padding::Same => 0,
            Padding::Valid | Padding::Pads(_) => {
                let Some(k) = kernel.value() else {
                    return Err(RuleError::unknown_size("filters", kernel));
                };
                k.saturating_sub(self.strides[i]).max(0)
            }
        };
        let size = scaled.and_then(|s| s.add(&Size::fixed(overlap)));
        Ok(Dim::exact(not_negative("the size", size)?))
    }
}

impl Padding<'_> {
    fn of_word(call: &Call<'_>) -> Self {
        match call.word("padding") {
            "same" => Padding::Same,
            _ => Padding::Valid,
        }
    }
}

fn known(pair: [i64; 2]) -> Result<[usize; 2], RuleError> {
    let [h, w] = pair.map(|n| usize::try_from(n).map_err(|_| RuleError::overflow()));
    Ok([h?, w?])
}

fn known_size(param: &'static str, size: &Size) -> Result<usize, RuleError> {
    let value = size
        .value()
        .ok_or_else(|| RuleError::unknown_size(param, size))?;
    usize::try_from(value).map_err(|_| RuleError::overflow())
}

fn wrong_length(param: &'static str, expected: &str, found: usize) -> RuleError {
    RuleError::new(
        RuleErrorKind::BadValue,
        format!("`{param}` must be {expected} (height and width), but has {found}"),
    )
    .at(param)
}
