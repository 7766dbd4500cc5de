//! Windows over tensors of known height and width: how many places they have, and which elements lie under each.

use std::ops::Range;

use crate::build::Pool;

/// A window over height and width, every number of which is known.
#[derive(Debug, Clone, Copy)]
pub(in crate::ops) struct Places {
    along: [Along; 2],
    counts: [usize; 2],
}

/// A window along height or width.
#[derive(Debug, Clone, Copy)]
pub(in crate::ops) struct Along {
    /// How many elements the input has.
    pub(in crate::ops) input: usize,
    /// How many elements the window has.
    pub(in crate::ops) kernel: usize,
    /// How far the window moves.
    pub(in crate::ops) stride: usize,
    /// How much room there is before and behind the input.
    pub(in crate::ops) pads: (usize, usize),
    /// How far apart the elements of the window are.
    pub(in crate::ops) dilation: usize,
}

impl Along {
    /// How many places the window has: ⌊(before + input + behind - span) / stride⌋ + 1, and none where it does not fit.
    fn places(&self) -> Result<usize, String> {
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
            Some(room) => room / self.stride + 1,
            None => 0,
        })
    }

    /// Which elements of the window lie on elements of the input.
    fn covered(&self, place: usize) -> Range<usize> {
        let start = place * self.stride;
        let up_to = |end: usize| {
            let reached = end.saturating_sub(start).div_ceil(self.dilation);
            reached.min(self.kernel)
        };
        up_to(self.pads.0)..up_to(self.pads.0 + self.input)
    }

    /// The element of the input under element `k` of the window, which must be covered.
    fn element(&self, place: usize, k: usize) -> usize {
        place * self.stride + k * self.dilation - self.pads.0
    }
}

impl Places {
    /// The places of a window, down and to the right.
    pub(in crate::ops) fn new(along: [Along; 2]) -> Result<Places, String> {
        let counts = [along[0].places()?, along[1].places()?];
        Ok(Places { along, counts })
    }

    /// The places of a pool's window over a tensor.
    pub(in crate::ops) fn of_pool(x: &[usize; 4], pool: &Pool) -> Result<Places, String> {
        Places::new([0, 1].map(|i| Along {
            input: x[1 + i],
            kernel: pool.ksize[i],
            stride: pool.strides[i],
            pads: pool.pads[i],
            dilation: 1,
        }))
    }

    /// How many there are, down and to the right.
    pub(in crate::ops) fn counts(&self) -> [usize; 2] {
        self.counts
    }

    /// How many there are.
    pub(in crate::ops) fn len(&self) -> usize {
        self.counts[0] * self.counts[1]
    }

    /// How many elements lie under a place.
    pub(in crate::ops) fn held(&self, place: usize) -> usize {
        let [rows, columns] = self.covered(place);
        rows.len() * columns.len()
    }

    /// What lies under a place, row after row: the element of the input and that of the window, both counted row after row.
    pub(in crate::ops) fn under(&self, place: usize) -> impl Iterator<Item = (usize, usize)> {
        let [down, right] = self.along;
        let (row, column) = (place / self.counts[1], place % self.counts[1]);
        let [rows, columns] = self.covered(place);
        rows.flat_map(move |i| {
            columns.clone().map(move |j| {
                let element = down.element(row, i) * right.input + right.element(column, j);
                (element, i * right.kernel + j)
            })
        })
    }

    fn covered(&self, place: usize) -> [Range<usize>; 2] {
        let at = [place / self.counts[1], place % self.counts[1]];
        [0, 1].map(|i| self.along[i].covered(at[i]))
    }
}

/// The four dimensions of a tensor of images or filters.
pub(in crate::ops) fn four(what: &str, shape: &[usize]) -> Result<[usize; 4], String> {
    shape
        .try_into()
        .map_err(|_| format!("{what} must have 4 dimensions, not {}", shape.len()))
}
