//! Sliding-window geometry of convolutions and pools along one axis, over static sizes: stride, padding and dilation.
//!
//! In: sizes. Out: the output size, and the taps and elements of each window position. Type inference, the interpreter and
//! code generation share it.

use std::ops::Range;

/// A sliding window along height or width.
#[derive(Debug, Clone, Copy)]
pub struct WindowAxis {
    /// The size of the input.
    pub input: usize,
    /// The size of the kernel.
    pub kernel: usize,
    /// The stride.
    pub stride: usize,
    /// The padding before the input.
    pub pad_before: usize,
    /// The dilation: how far apart the taps of the kernel are.
    pub dilation: usize,
    /// The output size: the number of window positions.
    pub outputs: usize,
}

impl WindowAxis {
    /// A window whose output size is ⌊(before + input + after - span) / stride⌋ + 1, and 0 where the window does not fit.
    pub fn new(
        input: usize,
        kernel: usize,
        stride: usize,
        (pad_before, pad_after): (usize, usize),
        dilation: usize,
    ) -> Result<WindowAxis, String> {
        for (what, n) in [
            ("window", kernel),
            ("stride", stride),
            ("dilation", dilation),
        ] {
            if n == 0 {
                return Err(format!("the {what} must be 1 or more"));
            }
        }
        let span = (kernel - 1)
            .checked_mul(dilation)
            .and_then(|n| n.checked_add(1));
        let padded = input
            .checked_add(pad_before)
            .and_then(|n| n.checked_add(pad_after));
        let (Some(span), Some(padded)) = (span, padded) else {
            return Err("the window or its padding is too large".to_owned());
        };
        let outputs = match padded.checked_sub(span) {
            Some(slack) => slack / stride + 1,
            None => 0,
        };
        Ok(WindowAxis {
            input,
            kernel,
            stride,
            pad_before,
            dilation,
            outputs,
        })
    }

    /// The taps of an output that fall on elements of the input, not on padding.
    #[inline]
    pub fn valid_taps(&self, output: usize) -> Range<usize> {
        let start = output * self.stride;
        let up_to = |end: usize| {
            let reached = end.saturating_sub(start).div_ceil(self.dilation);
            reached.min(self.kernel)
        };
        up_to(self.pad_before)..up_to(self.pad_before + self.input)
    }

    /// The input index of tap `k` of an output, which must be valid.
    #[inline]
    pub fn input_index(&self, output: usize, k: usize) -> usize {
        output * self.stride + k * self.dilation - self.pad_before
    }

    /// The input range of an output's window without dilation.
    #[inline]
    pub fn input_range(&self, output: usize) -> Range<usize> {
        let taps = self.valid_taps(output);
        match taps.is_empty() {
            true => 0..0,
            false => {
                self.input_index(output, taps.start)..self.input_index(output, taps.end - 1) + 1
            }
        }
    }
}
