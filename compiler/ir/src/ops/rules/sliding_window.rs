//! Sliding windows of convolutions and pools over height and width of static sizes: the taps at each position.

use std::ops::Range;

use crate::build::Pool;
use crate::window::WindowAxis;

/// A sliding window over height and width, with static sizes.
#[derive(Debug, Clone, Copy)]
pub(in crate::ops) struct SlidingWindow {
    along: [WindowAxis; 2],
}

impl SlidingWindow {
    /// The window along height and along width.
    pub(in crate::ops) fn new(
        along: [Result<WindowAxis, String>; 2],
    ) -> Result<SlidingWindow, String> {
        let [down, right] = along;
        Ok(SlidingWindow {
            along: [down?, right?],
        })
    }

    /// The window of a pool over a tensor.
    pub(in crate::ops) fn of_pool(x: &[usize; 4], pool: &Pool) -> Result<SlidingWindow, String> {
        SlidingWindow::new(
            [0, 1].map(|i| {
                WindowAxis::new(x[1 + i], pool.ksize[i], pool.strides[i], pool.pads[i], 1)
            }),
        )
    }

    /// The output height and width.
    pub(in crate::ops) fn output_sizes(&self) -> [usize; 2] {
        self.along.map(|axis| axis.outputs)
    }

    /// The number of window positions.
    pub(in crate::ops) fn len(&self) -> usize {
        let [down, right] = self.along;
        down.outputs * right.outputs
    }

    /// The number of input elements under the window at a position.
    pub(in crate::ops) fn covered_elements(&self, position: usize) -> usize {
        let [rows, columns] = self.valid_taps(position);
        rows.len() * columns.len()
    }

    /// The valid taps at a position in row-major order: the offset of the input element and that of the kernel tap.
    pub(in crate::ops) fn taps(&self, position: usize) -> impl Iterator<Item = (usize, usize)> {
        let [down, right] = self.along;
        let [row, column] = self.row_and_column(position);
        let [rows, columns] = self.valid_taps(position);
        rows.flat_map(move |i| {
            columns.clone().map(move |j| {
                let element = down.input_index(row, i) * right.input + right.input_index(column, j);
                (element, i * right.kernel + j)
            })
        })
    }

    fn valid_taps(&self, position: usize) -> [Range<usize>; 2] {
        let at = self.row_and_column(position);
        [0, 1].map(|i| self.along[i].valid_taps(at[i]))
    }

    fn row_and_column(&self, position: usize) -> [usize; 2] {
        let columns = self.along[1].outputs;
        [position / columns, position % columns]
    }
}

/// The four dimensions of a tensor of images or filters.
pub(in crate::ops) fn four(what: &str, shape: &[usize]) -> Result<[usize; 4], String> {
    shape
        .try_into()
        .map_err(|_| format!("{what} must have 4 dimensions, not {}", shape.len()))
}
