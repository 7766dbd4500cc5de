//! Sliding-window geometry of convolutions and pools over static shapes: output sizes, and the taps at each position.

use std::ops::Range;

use crate::build::Pool;

/// A sliding window over height and width, with static sizes.
#[derive(Debug, Clone, Copy)]
pub(in crate::ops) struct SlidingWindow {
    along: [WindowAxis; 2],
    output_sizes: [usize; 2],
}

/// A sliding window along height or width.
#[derive(Debug, Clone, Copy)]
pub(in crate::ops) struct WindowAxis {
    /// The size of the input.
    pub(in crate::ops) input: usize,
    /// The size of the kernel.
    pub(in crate::ops) kernel: usize,
    /// The stride.
    pub(in crate::ops) stride: usize,
    /// The padding before and after the input.
    pub(in crate::ops) pads: (usize, usize),
    /// The dilation: how far apart the taps of the kernel are.
    pub(in crate::ops) dilation: usize,
}

impl WindowAxis {
    /// The output size: ⌊(before + input + after - span) / stride⌋ + 1, and 0 where the window does not fit.
    fn output_size(&self) -> Result<usize, String> {
        for (what, n) in [
            ("window", self.kernel),
            ("stride", self.stride),
            ("dilation", self.dilation),
        ] {
            if n == 0 {
                return Err(format!("the {what} must be 1 or more"));
            }
        }
        let span = (self.kernel - 1)
            .checked_mul(self.dilation)
            .and_then(|n| n.checked_add(1));
        let padded = self
            .input
            .checked_add(self.pads.0)
            .and_then(|n| n.checked_add(self.pads.1));
        let (Some(span), Some(padded)) = (span, padded) else {
            return Err("the window or its padding is too large".to_owned());
        };
        Ok(match padded.checked_sub(span) {
            Some(slack) => slack / self.stride + 1,
            None => 0,
        })
    }

    /// The taps of the kernel that lie on elements of the input, not on padding.
    fn valid_taps(&self, position: usize) -> Range<usize> {
        let start = position * self.stride;
        let up_to = |end: usize| {
            let reached = end.saturating_sub(start).div_ceil(self.dilation);
            reached.min(self.kernel)
        };
        up_to(self.pads.0)..up_to(self.pads.0 + self.input)
    }

    /// The element of the input under tap `k`, which must be valid.
    fn element(&self, position: usize, k: usize) -> usize {
        position * self.stride + k * self.dilation - self.pads.0
    }
}

impl SlidingWindow {
    /// The window along height and along width.
    pub(in crate::ops) fn new(along: [WindowAxis; 2]) -> Result<SlidingWindow, String> {
        let output_sizes = [along[0].output_size()?, along[1].output_size()?];
        Ok(SlidingWindow {
            along,
            output_sizes,
        })
    }

    /// The window of a pool over a tensor.
    pub(in crate::ops) fn of_pool(x: &[usize; 4], pool: &Pool) -> Result<SlidingWindow, String> {
        SlidingWindow::new([0, 1].map(|i| WindowAxis {
            input: x[1 + i],
            kernel: pool.ksize[i],
            stride: pool.strides[i],
            pads: pool.pads[i],
            dilation: 1,
        }))
    }

    /// The output height and width.
    pub(in crate::ops) fn output_sizes(&self) -> [usize; 2] {
        self.output_sizes
    }

    /// The number of window positions.
    pub(in crate::ops) fn len(&self) -> usize {
        self.output_sizes[0] * self.output_sizes[1]
    }

    /// The number of input elements under the window at a position.
    pub(in crate::ops) fn covered_elements(&self, position: usize) -> usize {
        let [rows, columns] = self.valid_taps(position);
        rows.len() * columns.len()
    }

    /// The valid taps at a position in row-major order: the offset of the input element and that of the kernel tap.
    pub(in crate::ops) fn taps(&self, position: usize) -> impl Iterator<Item = (usize, usize)> {
        let [down, right] = self.along;
        let (row, column) = (
            position / self.output_sizes[1],
            position % self.output_sizes[1],
        );
        let [rows, columns] = self.valid_taps(position);
        rows.flat_map(move |i| {
            columns.clone().map(move |j| {
                let element = down.element(row, i) * right.input + right.element(column, j);
                (element, i * right.kernel + j)
            })
        })
    }

    fn valid_taps(&self, position: usize) -> [Range<usize>; 2] {
        let at = [
            position / self.output_sizes[1],
            position % self.output_sizes[1],
        ];
        [0, 1].map(|i| self.along[i].valid_taps(at[i]))
    }
}

/// The four dimensions of a tensor of images or filters.
pub(in crate::ops) fn four(what: &str, shape: &[usize]) -> Result<[usize; 4], String> {
    shape
        .try_into()
        .map_err(|_| format!("{what} must have 4 dimensions, not {}", shape.len()))
}
