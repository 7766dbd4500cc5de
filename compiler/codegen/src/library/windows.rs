//! Sliding windows along one axis: stride, padding and dilation, as convolution and pooling use them.

use std::ops::Range;

/// A sliding window along height or width.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window1d {
    /// The input size.
    pub(super) input: usize,
    /// The window size.
    pub(super) kernel: usize,
    /// The stride.
    pub(super) stride: usize,
    /// The padding before the input.
    pub(super) pad_before: usize,
    /// The dilation: the distance between taps.
    pub(super) dilation: usize,
    /// The output size.
    pub(super) outputs: usize,
}

impl Window1d {
    /// The taps of an output that fall on the input, not on padding.
    pub(super) fn valid_taps(&self, output: usize) -> Range<usize> {
        let start = output * self.stride;
        let up_to = |end: usize| {
            let reached = end.saturating_sub(start).div_ceil(self.dilation);
            reached.min(self.kernel)
        };
        up_to(self.pad_before)..up_to(self.pad_before + self.input)
    }

    /// The input index of tap `k` of an output, which must be valid.
    pub(super) fn input_index(&self, output: usize, k: usize) -> usize {
        output * self.stride + k * self.dilation - self.pad_before
    }

    /// The input range of an output's window without dilation.
    pub(super) fn input_range(&self, output: usize) -> Range<usize> {
        let taps = self.valid_taps(output);
        match taps.is_empty() {
            true => 0..0,
            false => {
                self.input_index(output, taps.start)..self.input_index(output, taps.end - 1) + 1
            }
        }
    }
}
