//! Windows that move over the height and width of images.

use std::ops::Range;

/// A window along height or width.
#[derive(Debug, Clone, Copy)]
pub(super) struct Along {
    /// How many elements the input has.
    pub(super) input: usize,
    /// How many elements the window has.
    pub(super) kernel: usize,
    /// How far the window moves.
    pub(super) stride: usize,
    /// How much room there is before the input.
    pub(super) before: usize,
    /// How far apart the elements of the window are.
    pub(super) dilation: usize,
    /// How many places the window has.
    pub(super) places: usize,
}

impl Along {
    /// Which elements of the window lie on elements of the input.
    pub(super) fn covered(&self, place: usize) -> Range<usize> {
        let start = place * self.stride;
        let up_to = |end: usize| {
            let reached = end.saturating_sub(start).div_ceil(self.dilation);
            reached.min(self.kernel)
        };
        up_to(self.before)..up_to(self.before + self.input)
    }

    /// The element of the input under element `k` of the window, which must be covered.
    pub(super) fn element(&self, place: usize, k: usize) -> usize {
        place * self.stride + k * self.dilation - self.before
    }

    /// Which elements of the input lie under a window that has no gaps.
    pub(super) fn under(&self, place: usize) -> Range<usize> {
        let covered = self.covered(place);
        match covered.is_empty() {
            true => 0..0,
            false => self.element(place, covered.start)..self.element(place, covered.end - 1) + 1,
        }
    }
}
