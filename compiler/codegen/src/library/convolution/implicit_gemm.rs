//! Convolution as implicit GEMM: the im2col matrix is never materialized; the microkernel reads its rows from the image by offsets.
//!
//! Rows of an image are copied into a zero-padded buffer first. The gradient of the input is a convolution of the cotangent with
//! flipped and transposed filters; a stride splits it into several (sub-pixel decomposition), one for each remainder of the position.
//! The gradient of the filters is a GEMM whose depth is the output pixels, split into partial sums that are added pairwise (split-K).

use std::marker::PhantomData;
use std::ops::Range;

use trainspec_ir::window::WindowAxis;

use super::{Convolution, ExecContext};
use crate::cpu::Cpu;
use crate::exec::gemm::{Indirect, KC, Matrix, multiply_indirect, pack_b, packed_b_len};
use crate::exec::parallel;
use crate::library::elements::Real;
use crate::library::{GRAIN, Pooled};

/// The most elements of a padded buffer.
const MAX_PADDED_ELEMENTS: usize = 1 << 16;

/// The least multiply-adds (MACs) of a task.
const MIN_TASK_MACS: usize = 1 << 17;
/// The number of tasks aimed at.
const TARGET_TASKS: usize = 8;

/// The most partial sums of the gradient of the filters (split-K).
const MAX_PARTIAL_SUMS: usize = 8;
/// The most elements of all partial sums.
const MAX_PARTIAL_ELEMENTS: usize = 1 << 23;

/// The index map of a convolution along one axis: output `first_output + output_step * i` sums the inputs
/// `first_input + input_step * i + dilation * t` for `taps` taps t.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Axis {
    first_output: usize,
    output_step: usize,
    count: usize,
    first_input: isize,
    input_step: usize,
    taps: usize,
    dilation: usize,
    /// The filter index of the first tap, and the step from tap to tap.
    first_tap: usize,
    tap_step: isize,
}

impl Axis {
    /// The forward convolution.
    fn forward(window: &WindowAxis) -> Axis {
        Axis {
            first_output: 0,
            output_step: 1,
            count: window.outputs,
            first_input: -(window.pad_before as isize),
            input_step: window.stride,
            taps: window.kernel,
            dilation: window.dilation,
            first_tap: 0,
            tap_step: 1,
        }
    }

    /// The gradient of the input, for the positions whose distance from the start of the padding is `remainder` modulo the stride.
    fn backward(window: &WindowAxis, remainder: usize) -> Axis {
        let WindowAxis {
            input,
            kernel,
            stride,
            pad_before,
            dilation,
            ..
        } = *window;
        // The taps with that remainder, and the first multiple of the stride whose position is in the image.
        let taps = kernel.saturating_sub(remainder).div_ceil(stride);
        let multiple = pad_before.saturating_sub(remainder).div_ceil(stride);
        let first_output = multiple * stride + remainder - pad_before;
        Axis {
            first_output,
            output_step: stride,
            count: input.saturating_sub(first_output).div_ceil(stride),
            first_input: multiple as isize - (taps.max(1) - 1) as isize * dilation as isize,
            input_step: 1,
            taps,
            dilation,
            first_tap: remainder + (taps.max(1) - 1) * stride,
            tap_step: -(stride as isize),
        }
    }

    /// The index map restricted to the outputs from `low` to `high`.
    fn restricted(self, low: usize, high: usize) -> Axis {
        let skipped = low
            .saturating_sub(self.first_output)
            .div_ceil(self.output_step);
        let end = high
            .saturating_sub(self.first_output)
            .div_ceil(self.output_step);
        Axis {
            first_output: self.first_output + skipped * self.output_step,
            count: end.min(self.count).saturating_sub(skipped),
            first_input: self.first_input + (skipped * self.input_step) as isize,
            ..self
        }
    }

    /// The range of inputs, where there are outputs and taps.
    fn input_range(&self) -> Option<(isize, isize)> {
        if self.count == 0 || self.taps == 0 {
            return None;
        }
        let last = (self.count - 1) * self.input_step + (self.taps - 1) * self.dilation;
        Some((self.first_input, self.first_input + last as isize + 1))
    }

    /// The filter index of a tap.
    fn filter_index(&self, tap: usize) -> usize {
        (self.first_tap as isize + tap as isize * self.tap_step) as usize
    }
}

/// The zero-padded rectangle of an image that some outputs read; it may extend beyond the image on all sides.
#[derive(Debug, Clone, Copy)]
struct PaddedTile {
    top: isize,
    left: isize,
    height: usize,
    width: usize,
    channels: usize,
}

impl PaddedTile {
    /// The bounding rectangle of the inputs of these axes.
    fn bounding(
        down: impl Iterator<Item = Axis>,
        right: impl Iterator<Item = Axis>,
        channels: usize,
    ) -> PaddedTile {
        let span = |(low, high): (isize, isize), (a, b): (isize, isize)| (low.min(a), high.max(b));
        let (top, bottom) = down
            .filter_map(|axis| axis.input_range())
            .reduce(span)
            .unwrap_or((0, 0));
        let (left, end) = right
            .filter_map(|axis| axis.input_range())
            .reduce(span)
            .unwrap_or((0, 0));
        PaddedTile {
            top,
            left,
            height: (bottom - top) as usize,
            width: (end - left) as usize,
            channels,
        }
    }

    /// The elements of the rectangle.
    fn elements(&self) -> usize {
        self.height * self.width * self.channels
    }

    /// The offset of a pixel.
    fn offset(&self, row: isize, column: isize) -> usize {
        ((row - self.top) as usize * self.width + (column - self.left) as usize) * self.channels
    }

    /// Copies the rectangle from an image, zero-padded.
    fn fill<T: Real>(&self, x: &[T], h: usize, w: usize, to: &mut [T]) {
        let (c, row_len) = (self.channels, self.width * self.channels);
        let before = ((-self.left).max(0) as usize).min(self.width);
        let first = self.left.max(0) as usize;
        let inside = w.saturating_sub(first).min(self.width - before);
        for (i, line) in to.chunks_exact_mut(row_len.max(1)).enumerate() {
            let row = self.top + i as isize;
            if row < 0 || row >= h as isize || inside == 0 {
                line.fill(T::ZERO);
                continue;
            }
            let (padding, rest) = line.split_at_mut(before * c);
            let (middle, end) = rest.split_at_mut(inside * c);
            padding.fill(T::ZERO);
            middle.copy_from_slice(&x[(row as usize * w + first) * c..][..inside * c]);
            end.fill(T::ZERO);
        }
    }
}

/// An implicit GEMM: filters are a packed matrix for each pair of vertical and horizontal index maps, with a row for each tap and input
/// channel and a column for each output channel.
struct ImplicitGemm<'a, T> {
    cpu: Cpu,
    /// Input and output channels, of one group and of all.
    from: (usize, usize),
    to: (usize, usize),
    groups: usize,
    down: &'a [Axis],
    right: &'a [Axis],
    /// Height and width of input and output.
    input: [usize; 2],
    output: [usize; 2],
    _elements: PhantomData<T>,
}

impl<T: Real> ImplicitGemm<'_, T> {
    /// Whether the taps of a filter row and their channels are contiguous in the input.
    fn has_contiguous_rows(&self) -> bool {
        let dense = self.right.iter().all(|c| c.dilation == 1);
        let taps = self.right.iter().map(|c| c.taps).max().unwrap_or(0);
        self.groups == 1 && dense && taps * self.from.0 <= KC
    }

    /// The length of a contiguous run, and the runs of a block of the depth.
    fn runs(&self, right: &Axis) -> (usize, usize) {
        let run = match self.has_contiguous_rows() {
            true => right.taps * self.from.0,
            false => self.from.0,
        };
        (run, (KC / run.max(1)).max(1))
    }

    /// Elements of the packed filters of a pair of index maps, for one group.
    fn filter_size(&self, down: &Axis, right: &Axis) -> usize {
        packed_b_len::<T>(down.taps * right.taps * self.from.0, self.to.0)
    }

    /// Computes the output rows from `low` to `high`, which `y` holds. `padded` is the buffer for the padded input, `offsets` for the
    /// offsets of rows and runs.
    fn rows(
        &self,
        x: &[T],
        mut filters: &[T],
        Range {
            start: low,
            end: high,
        }: Range<usize>,
        y: &mut [T],
        padded: &mut [T],
        offsets: &mut [usize],
    ) {
        let down = || self.down.iter().map(|c| c.restricted(low, high));
        let tile = PaddedTile::bounding(down(), self.right.iter().copied(), self.from.1);
        let padded = &mut padded[..tile.elements()];
        tile.fill(x, self.input[0], self.input[1], padded);
        let line = self.output[1] * self.to.1;
        for down in down() {
            for right in self.right {
                let (own, rest) = filters.split_at(self.groups * self.filter_size(&down, right));
                filters = rest;
                let count = down.count * right.count;
                if count == 0 {
                    continue;
                }
                let (outputs, offsets) = offsets.split_at_mut(count);
                let (rows, offsets) = offsets.split_at_mut(count);
                // An index map without taps reads nothing, so the padded tile need not have its inputs.
                let reads = down.taps > 0 && right.taps > 0;
                for i in 0..down.count {
                    for j in 0..right.count {
                        let at = i * right.count + j;
                        let row = down.first_output + i * down.output_step - low;
                        outputs[at] =
                            row * line + (right.first_output + j * right.output_step) * self.to.1;
                        rows[at] = match reads {
                            true => tile.offset(
                                down.first_input + (i * down.input_step) as isize,
                                right.first_input + (j * right.input_step) as isize,
                            ),
                            false => 0,
                        };
                    }
                }
                let tables = [outputs, rows, offsets];
                self.multiply((&down, right), &tile, own, padded, tables, y);
            }
        }
    }

    /// The GEMMs of one pair of index maps, for all groups.
    fn multiply(
        &self,
        (down, right): (&Axis, &Axis),
        tile: &PaddedTile,
        filters: &[T],
        x: &[T],
        [outputs, rows, runs]: [&mut [usize]; 3],
        y: &mut [T],
    ) {
        let (run, runs_per_block) = self.runs(right);
        let mut count = 0;
        for i in 0..down.taps {
            let line = i * down.dilation * tile.width;
            for j in 0..if self.has_contiguous_rows() {
                1.min(right.taps)
            } else {
                right.taps
            } {
                runs[count] = (line + j * right.dilation) * self.from.1;
                count += 1;
            }
        }
        let runs = &runs[..count];
        let size = self.filter_size(down, right);
        for group in 0..self.groups {
            let (input, output) = (group * self.from.0, group * self.to.0);
            let filters = &filters[group * size..][..size];
            if runs.is_empty() || run == 0 {
                for offset in &*outputs {
                    y[offset + output..][..self.to.0].fill(T::ZERO);
                }
                continue;
            }
            for (block, runs) in runs.chunks(runs_per_block).enumerate() {
                let (first, terms) = (block * runs_per_block * run, runs.len() * run);
                multiply_indirect(
                    self.cpu,
                    &mut y[output..],
                    outputs,
                    self.to.0,
                    block > 0,
                    Indirect {
                        data: &x[input..],
                        row_offsets: rows,
                        run_offsets: runs,
                        run_len: run,
                        stride: 1,
                    },
                    &filters[packed_b_len::<T>(first, self.to.0)..]
                        [..packed_b_len::<T>(terms, self.to.0)],
                );
            }
        }
    }

    /// The output rows of a task, the elements of its padded tile, and the number of its offsets.
    fn sizes(&self, images: usize) -> (usize, usize, usize) {
        let height = self.output[0];
        let taps = |axes: &[Axis]| axes.iter().map(|c| c.taps).sum::<usize>();
        let window = taps(self.down) * taps(self.right) * self.from.0;
        let shared = (self.down.len() * self.right.len()).max(1);
        let line = self.output[1] * self.to.1 * window.div_ceil(shared);
        let min_rows = (MIN_TASK_MACS / line.max(1)).max(1);
        let target = TARGET_TASKS.div_ceil(images.max(1)).max(1);
        let padded_size = |rows: usize| {
            let down = self.down.iter().map(|c| c.restricted(0, rows));
            // More rows, because index maps that begin later reach further.
            let mut tile = PaddedTile::bounding(down, self.right.iter().copied(), self.from.1);
            tile.height += 1 + self.down.iter().map(|c| c.input_step).max().unwrap_or(0);
            tile.elements()
        };
        let mut rows = height.div_ceil(target).max(min_rows).min(height).max(1);
        while rows > 1 && padded_size(rows) > MAX_PADDED_ELEMENTS {
            rows = rows.div_ceil(2);
        }
        let rows = height.div_ceil(height.div_ceil(rows).max(1)).max(1);
        let taps = |axes: &[Axis]| axes.iter().map(|c| c.taps).max().unwrap_or(0);
        let offsets = 2 * rows * self.output[1] + taps(self.down) * taps(self.right).max(1);
        (rows, padded_size(rows), offsets)
    }

    /// Computes all outputs. The filters are packed in blocks: for each vertical index map, horizontal index map and group.
    fn run(&self, ctx: ExecContext<'_>, x: &[T], filters: &[T], y: &mut [T]) {
        let [h, w] = self.output;
        let (input_size, output_size) = (
            self.input[0] * self.input[1] * self.from.1,
            h * w * self.to.1,
        );
        if y.is_empty() {
            return;
        }
        let (rows, padded_size, offsets) = self.sizes(y.len() / output_size);
        let (floats, indices) = (T::buffers(ctx.scratch), usize::buffers(ctx.scratch));
        floats.prepare(ctx.pool.threads(), padded_size);
        indices.prepare(ctx.pool.threads(), offsets);
        let band_size = rows * w * self.to.1;
        parallel::grouped_chunks_mut(ctx.pool, y, output_size, band_size, |image, band, y| {
            let (low, high) = (band * rows, h.min((band + 1) * rows));
            floats.with(padded_size, |padded| {
                indices.with(offsets, |offsets| {
                    let x = &x[image * input_size..][..input_size];
                    self.rows(x, filters, low..high, y, padded, offsets);
                });
            });
        });
    }
}

impl Convolution {
    /// Computes the convolution.
    pub(super) fn forward_implicit_gemm<T: Real>(
        &self,
        ctx: ExecContext<'_>,
        x: &[T],
        filters: &[T],
        y: &mut [T],
    ) {
        let (c_in, each) = self.channels();
        let (down, right) = ([Axis::forward(&self.down)], [Axis::forward(&self.right)]);
        let gemm = ImplicitGemm {
            cpu: ctx.cpu,
            from: (c_in, self.x[3]),
            to: (each, self.filters[3]),
            groups: self.groups,
            down: &down,
            right: &right,
            input: [self.x[1], self.x[2]],
            output: [self.down.outputs, self.right.outputs],
            _elements: PhantomData,
        };
        let size = gemm.filter_size(&down[0], &right[0]);
        T::buffers(ctx.scratch).with(self.groups * size, |packed_filters| {
            let (run, runs_per_block) = gemm.runs(&right[0]);
            for (group, to) in packed_filters.chunks_exact_mut(size.max(1)).enumerate() {
                let filters = Matrix {
                    data: &filters[group * each..],
                    size: (self.window(), each),
                    strides: (self.filters[3], 1),
                };
                pack_blocks(ctx.cpu, filters, run * runs_per_block, to);
            }
            gemm.run(ctx, x, packed_filters, y);
        });
    }

    /// Whether the gradient of the input decomposes into convolutions.
    pub(super) fn input_grad_suits_implicit_gemm(&self) -> bool {
        let decomposes = |a: &WindowAxis| a.stride == 1 || a.dilation == 1;
        let bounded = |a: &WindowAxis| a.stride <= MAX_STRIDE;
        let all = |f: &dyn Fn(&WindowAxis) -> bool| f(&self.down) && f(&self.right);
        all(&decomposes) && all(&bounded)
    }

    /// Computes the gradient of the input, where [it suits](Convolution::input_grad_suits_implicit_gemm).
    pub(super) fn input_grad_implicit_gemm<T: Real>(
        &self,
        ctx: ExecContext<'_>,
        dy: &[T],
        filters: &[T],
        dx: &mut [T],
    ) {
        let ((c_in, each), c_out) = (self.channels(), self.filters[3]);
        let backward = |a: &WindowAxis| {
            let mut axes = [Axis::backward(a, 0); MAX_STRIDE];
            for (remainder, axis) in axes.iter_mut().enumerate().take(a.stride) {
                *axis = Axis::backward(a, remainder);
            }
            axes
        };
        let (down, right) = (backward(&self.down), backward(&self.right));
        let (down, right) = (&down[..self.down.stride], &right[..self.right.stride]);
        let gemm = ImplicitGemm {
            cpu: ctx.cpu,
            from: (each, c_out),
            to: (c_in, self.x[3]),
            groups: self.groups,
            down,
            right,
            input: [self.down.outputs, self.right.outputs],
            output: [self.x[1], self.x[2]],
            _elements: PhantomData,
        };
        let sizes = down
            .iter()
            .flat_map(|d| right.iter().map(|r| gemm.filter_size(d, r)));
        let size = self.groups * sizes.sum::<usize>();
        let transposed = self.window() * each;
        T::buffers(ctx.scratch).with(size + transposed, |buffer| {
            let (packed_filters, transposed) = buffer.split_at_mut(size);
            let mut rest = &mut *packed_filters;
            for d in down {
                for r in right {
                    let (run, runs_per_block) = gemm.runs(r);
                    for group in 0..self.groups {
                        self.transpose_filters(filters, d, r, group, transposed);
                        let matrix = Matrix {
                            data: &*transposed,
                            size: (d.taps * r.taps * each, c_in),
                            strides: (c_in, 1),
                        };
                        let (to, after) = rest.split_at_mut(gemm.filter_size(d, r));
                        pack_blocks(ctx.cpu, matrix, run * runs_per_block, to);
                        rest = after;
                    }
                }
            }
            gemm.run(ctx, dy, packed_filters, dx);
        });
    }

    /// The filters of a group for the gradient of the input: for each tap, output channels are rows and input channels columns.
    fn transpose_filters<T: Real>(
        &self,
        filters: &[T],
        d: &Axis,
        r: &Axis,
        group: usize,
        to: &mut [T],
    ) {
        let ((c_in, each), c_out) = (self.channels(), self.filters[3]);
        let taps = (0..d.taps).flat_map(|i| (0..r.taps).map(move |j| (i, j)));
        for ((i, j), to) in taps.zip(to.chunks_exact_mut((each * c_in).max(1))) {
            let tap = d.filter_index(i) * self.filters[1] + r.filter_index(j);
            let from = &filters[tap * c_in * c_out + group * each..];
            for (o, to) in to.chunks_exact_mut(c_in.max(1)).enumerate() {
                for (i, to) in to.iter_mut().enumerate() {
                    *to = from[i * c_out + o];
                }
            }
        }
    }

    /// The gradient of the filters as split-K partial sums, which are added pairwise.
    pub(super) fn filter_grad_split<T: Real>(
        &self,
        ctx: ExecContext<'_>,
        x: &[T],
        dy: &[T],
        df: &mut [T],
    ) {
        let (images, size) = (self.x[0], df.len());
        if size == 0 {
            return;
        }
        let is_gemm = self.suits_implicit_gemm() && self.padding_is_neutral(dy);
        let step = self.filter_grad_step();
        // Steps of all images are divided among the partial sums.
        let each = match is_gemm {
            true => self.down.outputs.div_ceil(step.rows).max(1),
            false => 1,
        };
        let steps = images * each;
        let max_partials = (MAX_PARTIAL_ELEMENTS / size).clamp(1, MAX_PARTIAL_SUMS);
        let share = steps.div_ceil(max_partials).max(1);
        let partials = steps.div_ceil(share).max(1);
        let (floats, offsets) = (T::buffers(ctx.scratch), usize::buffers(ctx.scratch));
        let buffer_size = step.padded + step.cotangents;
        if is_gemm {
            floats.prepare(ctx.pool.threads() + 1, buffer_size);
            offsets.prepare(ctx.pool.threads(), step.offsets);
        }
        floats.with(partials * size, |sums| {
            parallel::chunks_mut(ctx.pool, sums, size, |i, sums| {
                sums.fill(T::ZERO);
                let own = i * share..steps.min((i + 1) * share);
                match is_gemm {
                    true => floats.with(buffer_size, |buffer| {
                        offsets.with(step.offsets, |offsets| {
                            for i in own {
                                let first = i % each * step.rows;
                                self.add_filter_grad(
                                    ctx.cpu,
                                    i / each,
                                    first,
                                    &step,
                                    x,
                                    dy,
                                    buffer,
                                    offsets,
                                    sums,
                                );
                            }
                        });
                    }),
                    false => own.for_each(|i| {
                        let (input_size, output_size) = self.sizes();
                        let x = &x[i * input_size..][..input_size];
                        let dy = &dy[i * output_size..][..output_size];
                        self.add_filter_grad_direct(x, dy, sums);
                    }),
                }
            });
            parallel::chunks_mut(ctx.pool, df, GRAIN, |i, df| {
                for (j, df) in df.chunks_mut(SUM_BLOCK).enumerate() {
                    add_partials(&sums[i * GRAIN + j * SUM_BLOCK..], size, partials, df);
                }
            });
        });
    }

    /// The GEMM steps of the gradient of the filters.
    fn filter_grad_step(&self) -> FilterGradStep {
        let w = self.right.outputs.max(1);
        let fits = (KC / w).clamp(1, self.down.outputs.max(1));
        let rows = self
            .down
            .outputs
            .div_ceil(self.down.outputs.div_ceil(fits).max(1))
            .max(1);
        let tile = self.padded_tile(0, rows);
        FilterGradStep {
            rows,
            padded: tile.elements(),
            cotangents: rows * w * self.filters[3].next_multiple_of(16)
                + 16 * self.groups * rows * w,
            offsets: 2 * self.window() + rows,
        }
    }

    /// The padded tile of the output rows from `low` to `high`.
    fn padded_tile(&self, low: usize, high: usize) -> PaddedTile {
        let down = Axis::forward(&self.down).restricted(low, high);
        let right = Axis::forward(&self.right);
        PaddedTile::bounding([down].into_iter(), [right].into_iter(), self.x[3])
    }

    /// Accumulates the gradient of the filters over output rows of one image.
    #[allow(clippy::too_many_arguments)] // three tensors, the rows, and buffers
    fn add_filter_grad<T: Real>(
        &self,
        cpu: Cpu,
        image: usize,
        low: usize,
        step: &FilterGradStep,
        x: &[T],
        dy: &[T],
        buffer: &mut [T],
        offsets: &mut [usize],
        df: &mut [T],
    ) {
        let ((input_size, output_size), c_out, w) =
            (self.sizes(), self.filters[3], self.right.outputs);
        let ((c_in, each), c) = (self.channels(), self.x[3]);
        let high = self.down.outputs.min(low + step.rows);
        let x = &x[image * input_size..][..input_size];
        let dy = &dy[image * output_size..][low * w * c_out..high * w * c_out];
        let (tile, outputs) = (self.padded_tile(low, high), (high - low) * w);
        if outputs == 0 {
            return;
        }
        let (pixels, cotangents) = buffer.split_at_mut(step.padded);
        let pixels = &mut pixels[..tile.elements()];
        tile.fill(x, self.x[1], self.x[2], pixels);
        let window = self.window();
        let (rows, rest) = offsets.split_at_mut(window);
        let (sums, runs) = rest.split_at_mut(window);
        let runs = &mut runs[..high - low];
        for (i, (row, sum)) in rows.iter_mut().zip(&mut *sums).enumerate() {
            let (tap, channel) = (i / c_in, i % c_in);
            let (i_down, i_right) = (tap / self.filters[1], tap % self.filters[1]);
            let line = i_down * self.down.dilation * tile.width;
            *row = (line + i_right * self.right.dilation) * c + channel;
            *sum = i * c_out;
        }
        for (i, run) in runs.iter_mut().enumerate() {
            *run = i * self.down.stride * tile.width * c;
        }
        for group in 0..self.groups {
            let cotangents = &mut cotangents[..packed_b_len::<T>(outputs, each)];
            pack_b(
                cpu,
                Matrix {
                    data: &dy[group * each..],
                    size: (outputs, each),
                    strides: (c_out, 1),
                },
                cotangents,
            );
            multiply_indirect(
                cpu,
                &mut df[group * each..],
                sums,
                each,
                true,
                Indirect {
                    data: &pixels[group * c_in..],
                    row_offsets: rows,
                    run_offsets: runs,
                    run_len: w,
                    stride: self.right.stride * c,
                },
                cotangents,
            );
        }
    }
}

/// The largest stride along an axis for the gradient of the input.
const MAX_STRIDE: usize = 8;

/// A GEMM step of the gradient of the filters: output rows, and elements of its buffers.
struct FilterGradStep {
    rows: usize,
    padded: usize,
    cotangents: usize,
    offsets: usize,
}

/// Elements that are added at once.
const SUM_BLOCK: usize = 64;

/// Pairwise summation of partial sums with stride `size`: neighbours, level by level.
fn add_partials<T: Real>(sums: &[T], size: usize, partials: usize, to: &mut [T]) {
    let mut own = [[T::ZERO; SUM_BLOCK]; MAX_PARTIAL_SUMS];
    for (i, own) in own.iter_mut().enumerate().take(partials) {
        own[..to.len()].copy_from_slice(&sums[i * size..][..to.len()]);
    }
    let mut distance = 1;
    while distance < partials {
        for i in (0..partials - distance).step_by(2 * distance) {
            let (left, right) = own.split_at_mut(i + distance);
            for (a, b) in left[i].iter_mut().zip(&right[0]) {
                *a += *b;
            }
        }
        distance *= 2;
    }
    to.copy_from_slice(&own[0][..to.len()]);
}

/// Packs a matrix in blocks of `block_rows` rows.
fn pack_blocks<T: Real>(cpu: Cpu, matrix: Matrix<'_, T>, block_rows: usize, to: &mut [T]) {
    let ((terms, columns), mut rest) = (matrix.size, to);
    for first in (0..terms).step_by(block_rows.max(1)) {
        let size = (block_rows.min(terms - first), columns);
        let (own, after) = rest.split_at_mut(packed_b_len::<T>(size.0, columns));
        let data = &matrix.data[first * matrix.strides.0..];
        pack_b(
            cpu,
            Matrix {
                data,
                size,
                ..matrix
            },
            own,
        );
        rest = after;
    }
}
