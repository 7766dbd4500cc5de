//! Convolutions as products of matrices that are never made: each tile of the product reads its windows from the image.
//!
//! What lies beside the image is a margin of zeros, so some rows of an image are copied into a frame with a margin first. The gradient
//! of the images is a convolution of what flows back with the filters turned around; a stride makes it several, one for each
//! remainder of the position.

use std::marker::PhantomData;
use std::ops::Range;

use super::{Convolution, Means};
use crate::exec::gemm::{Indirect, KC, Matrix, multiply_indirect, pack_b, packed_b_len};
use crate::exec::parallel;
use crate::library::elements::Real;
use crate::library::windows::Along;
use crate::library::{GRAIN, Kept};

/// The most elements of a frame.
const FRAME: usize = 1 << 16;

/// The least products of numbers in a task, and the tasks that are wanted.
const LEAST: usize = 1 << 17;
const TASKS: usize = 8;

/// The most pieces that the gradient of filters is summed in, and the most elements they have together.
const PIECES: usize = 8;
const TOGETHER: usize = 1 << 23;

/// How outputs along one dimension come from inputs: output `at + step * i` sums the inputs `from + pace * i + apart * t` for `taps` t.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Course {
    at: usize,
    step: usize,
    count: usize,
    from: isize,
    pace: usize,
    taps: usize,
    apart: usize,
    /// The element of the window at the first tap, and how far apart those of the others are.
    first: usize,
    back: isize,
}

impl Course {
    /// The places of a window.
    fn forward(along: &Along) -> Course {
        Course {
            at: 0,
            step: 1,
            count: along.places,
            from: -(along.before as isize),
            pace: along.stride,
            taps: along.kernel,
            apart: along.dilation,
            first: 0,
            back: 1,
        }
    }

    /// The inputs that get back what flows, as far as they have this remainder: their position plus what is before the image is
    /// `remainder` more than a multiple of the stride.
    fn backward(along: &Along, remainder: usize) -> Course {
        let Along {
            input,
            kernel,
            stride,
            before,
            dilation,
            ..
        } = *along;
        // The elements of the window with that remainder, and the first multiple whose position is in the image.
        let taps = kernel.saturating_sub(remainder).div_ceil(stride);
        let multiple = before.saturating_sub(remainder).div_ceil(stride);
        let at = multiple * stride + remainder - before;
        Course {
            at,
            step: stride,
            count: input.saturating_sub(at).div_ceil(stride),
            from: multiple as isize - (taps.max(1) - 1) as isize * dilation as isize,
            pace: 1,
            taps,
            apart: dilation,
            first: remainder + (taps.max(1) - 1) * stride,
            back: -(stride as isize),
        }
    }

    /// The same for the outputs from `low` to `high`.
    fn cut(self, low: usize, high: usize) -> Course {
        let skipped = low.saturating_sub(self.at).div_ceil(self.step);
        let end = high.saturating_sub(self.at).div_ceil(self.step);
        Course {
            at: self.at + skipped * self.step,
            count: end.min(self.count).saturating_sub(skipped),
            from: self.from + (skipped * self.pace) as isize,
            ..self
        }
    }

    /// The first input and the one behind the last, where there are outputs and taps.
    fn reach(&self) -> Option<(isize, isize)> {
        if self.count == 0 || self.taps == 0 {
            return None;
        }
        let far = (self.count - 1) * self.pace + (self.taps - 1) * self.apart;
        Some((self.from, self.from + far as isize + 1))
    }

    /// The element of the window at a tap.
    fn element(&self, tap: usize) -> usize {
        (self.first as isize + tap as isize * self.back) as usize
    }
}

/// Rows and columns of images from one that may begin before or behind the image.
#[derive(Debug, Clone, Copy)]
struct Frame {
    top: isize,
    left: isize,
    height: usize,
    width: usize,
    channels: usize,
}

impl Frame {
    /// The frame that has all inputs of these courses.
    fn around(
        down: impl Iterator<Item = Course>,
        right: impl Iterator<Item = Course>,
        channels: usize,
    ) -> Frame {
        let span = |(low, high): (isize, isize), (a, b): (isize, isize)| (low.min(a), high.max(b));
        let (top, bottom) = down
            .filter_map(|c| c.reach())
            .reduce(span)
            .unwrap_or((0, 0));
        let (left, end) = right
            .filter_map(|c| c.reach())
            .reduce(span)
            .unwrap_or((0, 0));
        Frame {
            top,
            left,
            height: (bottom - top) as usize,
            width: (end - left) as usize,
            channels,
        }
    }

    fn elements(&self) -> usize {
        self.height * self.width * self.channels
    }

    /// Where an element is.
    fn place(&self, row: isize, column: isize) -> usize {
        ((row - self.top) as usize * self.width + (column - self.left) as usize) * self.channels
    }

    /// Fills the frame from an image, with zeros beside it.
    fn fill<T: Real>(&self, x: &[T], h: usize, w: usize, to: &mut [T]) {
        let (c, line) = (self.channels, self.width * self.channels);
        let before = ((-self.left).max(0) as usize).min(self.width);
        let first = self.left.max(0) as usize;
        let inside = w.saturating_sub(first).min(self.width - before);
        for (i, line) in to.chunks_exact_mut(line.max(1)).enumerate() {
            let row = self.top + i as isize;
            if row < 0 || row >= h as isize || inside == 0 {
                line.fill(T::ZERO);
                continue;
            }
            let (margin, rest) = line.split_at_mut(before * c);
            let (middle, end) = rest.split_at_mut(inside * c);
            margin.fill(T::ZERO);
            middle.copy_from_slice(&x[(row as usize * w + first) * c..][..inside * c]);
            end.fill(T::ZERO);
        }
    }
}

/// A convolution of frames with filters that were turned into a matrix for each course down and right: a row for each tap and channel,
/// a column for each channel out.
struct Sweep<'a, T> {
    /// Channels of the input and of the output, of one group and of all.
    from: (usize, usize),
    to: (usize, usize),
    groups: usize,
    down: &'a [Course],
    right: &'a [Course],
    /// The shapes of inputs and outputs.
    input: [usize; 2],
    output: [usize; 2],
    _elements: PhantomData<T>,
}

impl<T: Real> Sweep<'_, T> {
    /// Whether the taps of a row of the window and their channels are one run.
    fn is_joined(&self) -> bool {
        let near = self.right.iter().all(|c| c.apart == 1);
        let taps = self.right.iter().map(|c| c.taps).max().unwrap_or(0);
        self.groups == 1 && near && taps * self.from.0 <= KC
    }

    /// The terms of a run, and how many runs there are in a block.
    fn runs(&self, right: &Course) -> (usize, usize) {
        let run = match self.is_joined() {
            true => right.taps * self.from.0,
            false => self.from.0,
        };
        (run, (KC / run.max(1)).max(1))
    }

    /// Elements of the filters for a course down and right, and a group.
    fn filter_size(&self, down: &Course, right: &Course) -> usize {
        packed_b_len::<T>(down.taps * right.taps * self.from.0, self.to.0)
    }

    /// Computes the outputs of the rows from `low` to `high`, which `y` holds. `room` is for the frame, `offsets` for the places of rows and runs.
    fn rows(
        &self,
        x: &[T],
        mut filters: &[T],
        Range {
            start: low,
            end: high,
        }: Range<usize>,
        y: &mut [T],
        room: &mut [T],
        offsets: &mut [usize],
    ) {
        let down = || self.down.iter().map(|c| c.cut(low, high));
        let frame = Frame::around(down(), self.right.iter().copied(), self.from.1);
        let room = &mut room[..frame.elements()];
        frame.fill(x, self.input[0], self.input[1], room);
        let line = self.output[1] * self.to.1;
        for down in down() {
            for right in self.right {
                let (own, rest) = filters.split_at(self.groups * self.filter_size(&down, right));
                filters = rest;
                let count = down.count * right.count;
                if count == 0 {
                    continue;
                }
                let (places, offsets) = offsets.split_at_mut(count);
                let (rows, offsets) = offsets.split_at_mut(count);
                // A course without taps reads nothing, so the frame need not have its inputs.
                let reads = down.taps > 0 && right.taps > 0;
                for i in 0..down.count {
                    for j in 0..right.count {
                        let at = i * right.count + j;
                        let row = down.at + i * down.step - low;
                        places[at] = row * line + (right.at + j * right.step) * self.to.1;
                        rows[at] = match reads {
                            true => frame.place(
                                down.from + (i * down.pace) as isize,
                                right.from + (j * right.pace) as isize,
                            ),
                            false => 0,
                        };
                    }
                }
                let tables = [places, rows, offsets];
                self.product((&down, right), &frame, own, room, tables, y);
            }
        }
    }

    /// One course down and right, all groups.
    fn product(
        &self,
        (down, right): (&Course, &Course),
        frame: &Frame,
        filters: &[T],
        x: &[T],
        [places, rows, runs]: [&mut [usize]; 3],
        y: &mut [T],
    ) {
        let (run, some) = self.runs(right);
        let mut count = 0;
        for i in 0..down.taps {
            let line = i * down.apart * frame.width;
            for j in 0..if self.is_joined() {
                1.min(right.taps)
            } else {
                right.taps
            } {
                runs[count] = (line + j * right.apart) * self.from.1;
                count += 1;
            }
        }
        let runs = &runs[..count];
        let size = self.filter_size(down, right);
        for group in 0..self.groups {
            let (input, output) = (group * self.from.0, group * self.to.0);
            let filters = &filters[group * size..][..size];
            if runs.is_empty() || run == 0 {
                for place in &*places {
                    y[place + output..][..self.to.0].fill(T::ZERO);
                }
                continue;
            }
            for (block, runs) in runs.chunks(some).enumerate() {
                let (first, terms) = (block * some * run, runs.len() * run);
                multiply_indirect(
                    &mut y[output..],
                    places,
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

    /// How many rows of outputs a task takes, how large its frame is and how many offsets it needs.
    fn sizes(&self, images: usize) -> (usize, usize, usize) {
        let height = self.output[0];
        let taps = |courses: &[Course]| courses.iter().map(|c| c.taps).sum::<usize>();
        let window = taps(self.down) * taps(self.right) * self.from.0;
        let shared = (self.down.len() * self.right.len()).max(1);
        let line = self.output[1] * self.to.1 * window.div_ceil(shared);
        let fine = (LEAST / line.max(1)).max(1);
        let wanted = TASKS.div_ceil(images.max(1)).max(1);
        let room = |rows: usize| {
            let down = self.down.iter().map(|c| c.cut(0, rows));
            // One more row or column, because courses that begin later reach further.
            let mut frame = Frame::around(down, self.right.iter().copied(), self.from.1);
            frame.height += 1 + self.down.iter().map(|c| c.pace).max().unwrap_or(0);
            frame.elements()
        };
        let mut rows = height.div_ceil(wanted).max(fine).min(height).max(1);
        while rows > 1 && room(rows) > FRAME {
            rows = rows.div_ceil(2);
        }
        let rows = height.div_ceil(height.div_ceil(rows).max(1)).max(1);
        let taps = |courses: &[Course]| courses.iter().map(|c| c.taps).max().unwrap_or(0);
        let offsets = 2 * rows * self.output[1] + taps(self.down) * taps(self.right).max(1);
        (rows, room(rows), offsets)
    }

    /// Computes all outputs. The filters are packed block by block: for each course down, course right and group.
    fn run(&self, means: Means<'_>, x: &[T], filters: &[T], y: &mut [T]) {
        let [h, w] = self.output;
        let (image, after) = (
            self.input[0] * self.input[1] * self.from.1,
            h * w * self.to.1,
        );
        if y.is_empty() {
            return;
        }
        let (rows, room, offsets) = self.sizes(y.len() / after);
        let (floats, places) = (T::shelf(means.scratch), usize::shelf(means.scratch));
        floats.prepare(means.pool.threads(), room);
        places.prepare(means.pool.threads(), offsets);
        parallel::grouped_chunks_mut(means.pool, y, after, rows * w * self.to.1, |i, part, y| {
            let (low, high) = (part * rows, h.min((part + 1) * rows));
            floats.lend(room, |room| {
                places.lend(offsets, |offsets| {
                    let x = &x[i * image..][..image];
                    self.rows(x, filters, low..high, y, room, offsets);
                });
            });
        });
    }
}

impl Convolution {
    pub(super) fn forward_swept<T: Real>(
        &self,
        means: Means<'_>,
        x: &[T],
        filters: &[T],
        y: &mut [T],
    ) {
        let (c_in, each) = self.channels();
        let (down, right) = (
            [Course::forward(&self.down)],
            [Course::forward(&self.right)],
        );
        let sweep = Sweep {
            from: (c_in, self.x[3]),
            to: (each, self.filters[3]),
            groups: self.groups,
            down: &down,
            right: &right,
            input: [self.x[1], self.x[2]],
            output: [self.down.places, self.right.places],
            _elements: PhantomData,
        };
        let size = sweep.filter_size(&down[0], &right[0]);
        T::shelf(means.scratch).lend(self.groups * size, |room| {
            let (run, some) = sweep.runs(&right[0]);
            for (group, to) in room.chunks_exact_mut(size.max(1)).enumerate() {
                let filters = Matrix {
                    data: &filters[group * each..],
                    size: (self.window(), each),
                    strides: (self.filters[3], 1),
                };
                pack_blocks(filters, run * some, to);
            }
            sweep.run(means, x, room, y);
        });
    }

    /// Whether the gradient of the images is made of convolutions.
    pub(super) fn sweeps_back(&self) -> bool {
        let one = |a: &Along| a.stride == 1 || a.dilation == 1;
        let few = |a: &Along| a.stride <= STRIDES;
        let all = |f: &dyn Fn(&Along) -> bool| f(&self.down) && f(&self.right);
        all(&one) && all(&few)
    }

    pub(super) fn input_grad_swept<T: Real>(
        &self,
        means: Means<'_>,
        dy: &[T],
        filters: &[T],
        dx: &mut [T],
    ) {
        let ((c_in, each), c_out) = (self.channels(), self.filters[3]);
        let backward = |a: &Along| {
            let mut courses = [Course::backward(a, 0); STRIDES];
            for (remainder, course) in courses.iter_mut().enumerate().take(a.stride) {
                *course = Course::backward(a, remainder);
            }
            courses
        };
        let (down, right) = (backward(&self.down), backward(&self.right));
        let (down, right) = (&down[..self.down.stride], &right[..self.right.stride]);
        let sweep = Sweep {
            from: (each, c_out),
            to: (c_in, self.x[3]),
            groups: self.groups,
            down,
            right,
            input: [self.down.places, self.right.places],
            output: [self.x[1], self.x[2]],
            _elements: PhantomData,
        };
        let sizes = down
            .iter()
            .flat_map(|d| right.iter().map(|r| sweep.filter_size(d, r)));
        let size = self.groups * sizes.sum::<usize>();
        let turned = self.window() * each;
        T::shelf(means.scratch).lend(size + turned, |room| {
            let (room, turned) = room.split_at_mut(size);
            let mut rest = &mut *room;
            for d in down {
                for r in right {
                    let (run, some) = sweep.runs(r);
                    for group in 0..self.groups {
                        self.turn(filters, d, r, group, turned);
                        let matrix = Matrix {
                            data: &*turned,
                            size: (d.taps * r.taps * each, c_in),
                            strides: (c_in, 1),
                        };
                        let (to, after) = rest.split_at_mut(sweep.filter_size(d, r));
                        pack_blocks(matrix, run * some, to);
                        rest = after;
                    }
                }
            }
            sweep.run(means, dy, room, dx);
        });
    }

    /// The filters of a group for the way back: for each tap, channels out are rows and channels in columns.
    fn turn<T: Real>(&self, filters: &[T], d: &Course, r: &Course, group: usize, to: &mut [T]) {
        let ((c_in, each), c_out) = (self.channels(), self.filters[3]);
        let taps = (0..d.taps).flat_map(|i| (0..r.taps).map(move |j| (i, j)));
        for ((i, j), to) in taps.zip(to.chunks_exact_mut((each * c_in).max(1))) {
            let tap = d.element(i) * self.filters[1] + r.element(j);
            let from = &filters[tap * c_in * c_out + group * each..];
            for (o, to) in to.chunks_exact_mut(c_in.max(1)).enumerate() {
                for (i, to) in to.iter_mut().enumerate() {
                    *to = from[i * c_out + o];
                }
            }
        }
    }

    /// The gradient of the filters: pieces of the images are summed for themselves and then pairwise.
    pub(super) fn filter_grad_in_pieces<T: Real>(
        &self,
        means: Means<'_>,
        x: &[T],
        dy: &[T],
        df: &mut [T],
    ) {
        let (images, size) = (self.x[0], df.len());
        if size == 0 {
            return;
        }
        let swept = self.is_swept() && self.margin_is_zero(dy);
        let step = self.steps();
        // Steps of all images are shared out.
        let each = match swept {
            true => self.down.places.div_ceil(step.rows).max(1),
            false => 1,
        };
        let steps = images * each;
        let most = (TOGETHER / size).clamp(1, PIECES);
        let share = steps.div_ceil(most).max(1);
        let pieces = steps.div_ceil(share).max(1);
        let (floats, offsets) = (T::shelf(means.scratch), usize::shelf(means.scratch));
        let room = step.frame + step.flows;
        if swept {
            floats.prepare(means.pool.threads() + 1, room);
            offsets.prepare(means.pool.threads(), step.offsets);
        }
        floats.lend(pieces * size, |sums| {
            parallel::chunks_mut(means.pool, sums, size, |i, sums| {
                sums.fill(T::ZERO);
                let own = i * share..steps.min((i + 1) * share);
                match swept {
                    true => floats.lend(room, |room| {
                        offsets.lend(step.offsets, |offsets| {
                            for i in own {
                                let first = i % each * step.rows;
                                self.add_filter_grad(
                                    i / each,
                                    first,
                                    &step,
                                    x,
                                    dy,
                                    room,
                                    offsets,
                                    sums,
                                );
                            }
                        });
                    }),
                    false => own.for_each(|i| {
                        let (image, after) = self.sizes();
                        let x = &x[i * image..][..image];
                        self.add_filter_grad_direct(x, &dy[i * after..][..after], sums);
                    }),
                }
            });
            parallel::chunks_mut(means.pool, df, GRAIN, |i, df| {
                for (j, df) in df.chunks_mut(BESIDE).enumerate() {
                    add_pieces(&sums[i * GRAIN + j * BESIDE..], size, pieces, df);
                }
            });
        });
    }

    /// The steps in which the gradient of filters is summed.
    fn steps(&self) -> Steps {
        let w = self.right.places.max(1);
        let fits = (KC / w).clamp(1, self.down.places.max(1));
        let rows = self
            .down
            .places
            .div_ceil(self.down.places.div_ceil(fits).max(1))
            .max(1);
        let frame = self.frame(0, rows);
        Steps {
            rows,
            frame: frame.elements(),
            flows: rows * w * self.filters[3].next_multiple_of(16) + 16 * self.groups * rows * w,
            offsets: 2 * self.window() + rows,
        }
    }

    /// The frame for some rows of places.
    fn frame(&self, low: usize, high: usize) -> Frame {
        let down = Course::forward(&self.down).cut(low, high);
        let right = Course::forward(&self.right);
        Frame::around([down].into_iter(), [right].into_iter(), self.x[3])
    }

    /// Adds the products of some rows of one image to the gradient of the filters.
    #[allow(clippy::too_many_arguments)] // three tensors, where in them, and what to compute in
    fn add_filter_grad<T: Real>(
        &self,
        image: usize,
        low: usize,
        step: &Steps,
        x: &[T],
        dy: &[T],
        room: &mut [T],
        offsets: &mut [usize],
        df: &mut [T],
    ) {
        let ((before, after), c_out, w) = (self.sizes(), self.filters[3], self.right.places);
        let ((c_in, each), c) = (self.channels(), self.x[3]);
        let high = self.down.places.min(low + step.rows);
        let x = &x[image * before..][..before];
        let dy = &dy[image * after..][low * w * c_out..high * w * c_out];
        let (frame, places) = (self.frame(low, high), (high - low) * w);
        if places == 0 {
            return;
        }
        let (pixels, flows) = room.split_at_mut(step.frame);
        let pixels = &mut pixels[..frame.elements()];
        frame.fill(x, self.x[1], self.x[2], pixels);
        let window = self.window();
        let (rows, rest) = offsets.split_at_mut(window);
        let (sums, runs) = rest.split_at_mut(window);
        let runs = &mut runs[..high - low];
        for (i, (row, sum)) in rows.iter_mut().zip(&mut *sums).enumerate() {
            let (tap, channel) = (i / c_in, i % c_in);
            let (i_down, i_right) = (tap / self.filters[1], tap % self.filters[1]);
            let line = i_down * self.down.dilation * frame.width;
            *row = (line + i_right * self.right.dilation) * c + channel;
            *sum = i * c_out;
        }
        for (i, run) in runs.iter_mut().enumerate() {
            *run = i * self.down.stride * frame.width * c;
        }
        for group in 0..self.groups {
            let flows = &mut flows[..packed_b_len::<T>(places, each)];
            pack_b(
                Matrix {
                    data: &dy[group * each..],
                    size: (places, each),
                    strides: (c_out, 1),
                },
                flows,
            );
            multiply_indirect(
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
                flows,
            );
        }
    }
}

/// The most remainders of a position along one dimension.
const STRIDES: usize = 8;

/// How the gradient of filters is summed: rows of places at a time, and how much room that takes.
struct Steps {
    rows: usize,
    frame: usize,
    flows: usize,
    offsets: usize,
}

/// How many sums are added together.
const BESIDE: usize = 64;

/// Adds pieces that lie `size` apart: neighbours pairwise, level by level.
fn add_pieces<T: Real>(sums: &[T], size: usize, pieces: usize, to: &mut [T]) {
    let mut own = [[T::ZERO; BESIDE]; PIECES];
    for (i, own) in own.iter_mut().enumerate().take(pieces) {
        own[..to.len()].copy_from_slice(&sums[i * size..][..to.len()]);
    }
    let mut gap = 1;
    while gap < pieces {
        for i in (0..pieces - gap).step_by(2 * gap) {
            let (left, right) = own.split_at_mut(i + gap);
            for (a, b) in left[i].iter_mut().zip(&right[0]) {
                *a += *b;
            }
        }
        gap *= 2;
    }
    to.copy_from_slice(&own[0][..to.len()]);
}

/// Packs a matrix in blocks of so many lines.
fn pack_blocks<T: Real>(matrix: Matrix<'_, T>, lines: usize, to: &mut [T]) {
    let ((terms, columns), mut rest) = (matrix.size, to);
    for first in (0..terms).step_by(lines.max(1)) {
        let size = (lines.min(terms - first), columns);
        let (own, after) = rest.split_at_mut(packed_b_len::<T>(size.0, columns));
        let data = &matrix.data[first * matrix.strides.0..];
        pack_b(
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
