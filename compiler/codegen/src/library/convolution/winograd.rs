//! Convolutions of windows of 3 x 3 and 5 x 5 with fewer products (Winograd 1980, after Toom and Cook).
//!
//! Outputs come in tiles: `M` x `M` of them need 6 x 6 inputs. Inputs and filters are polynomials along each dimension; both are
//! evaluated at six points, 0, ±3/4, ±3/2 and infinity, multiplied point by point, and what the outputs are is read from the products. So a
//! tile takes 36 products for each pair of channels, where the sums as they stand take 100 (two by two outputs of 5 x 5) or 144
//! (four by four of 3 x 3). At each of the 36 points the products of all channels are a product of matrices.
//!
//! The points are chosen for small errors: they are two to three times those of sums term by term. A window has them in common,
//! though: an output may be wrong by the rounding of the largest input of its tile, not only of those that it is made of. What is not
//! finite would spread in the same way, so tiles and gradients with such results are computed again, term by term.

mod points;

use std::ops::Range;

use super::{Convolution, Means};
use crate::exec::gemm::{
    self, Indirect, Matrix, Product, multiply, multiply_indirect, pack_b, packed_b_len,
};
use crate::exec::multiversion::{FmaWork, Simd, dispatch_fma, has_fma};
use crate::exec::{parallel, pool::Pool};
use crate::library::{Kept, Shelf};
use points::{ALL, Filters, FiltersBack, FromOutputs, Inputs, POINTS, ToOutputs, both, square};

/// How many channels are computed together.
const WIDE: usize = 16;

/// The most tiles at a time, and the most elements that they take at their points: those stay in the second cache.
const MOST: usize = 64;
const TOGETHER: usize = 3 << 16;

/// The pieces in which gradients of filters are summed.
const PIECES: usize = 8;

/// What a convolution is, as far as tiles are concerned: from images to images, with filters of both.
#[derive(Debug, Clone, Copy)]
struct Tiles {
    images: usize,
    /// Height and width of what is read.
    input: [usize; 2],
    /// Height and width of what is made.
    output: [usize; 2],
    /// How much room there is before the input.
    before: [usize; 2],
    /// Channels read and made.
    from: usize,
    to: usize,
}

impl Convolution {
    /// The size of the window, where tiles are possible and worth their while.
    fn tiled(&self, tiles: &Tiles) -> Option<usize> {
        let [kh, kw, ..] = self.filters;
        let plain = [&self.down, &self.right]
            .iter()
            .all(|a| a.stride == 1 && a.dilation == 1 && a.before < a.kernel);
        let fits = has_fma() && self.groups == 1 && plain && kh == kw && [3, 5].contains(&kh);
        Some(kh).filter(|size| fits && tiles.are_worth_it(*size))
    }

    fn tiles(&self) -> Tiles {
        Tiles {
            images: self.x[0],
            input: [self.x[1], self.x[2]],
            output: [self.down.places, self.right.places],
            before: [self.down.before, self.right.before],
            from: self.filters[2],
            to: self.filters[3],
        }
    }

    /// Computes the convolution if tiles are worth their while.
    pub(super) fn forward_tiled(
        &self,
        means: Means<'_>,
        x: &[f32],
        filters: &[f32],
        y: &mut [f32],
    ) -> bool {
        let tiles = self.tiles();
        match self.tiled(&tiles) {
            Some(3) => convolve::<4, 3>(means, tiles, x, (filters, false), y),
            Some(_) => convolve::<2, 5>(means, tiles, x, (filters, false), y),
            None => return false,
        }
        true
    }

    /// The same for what flows back to the images: a convolution with the filters turned around.
    pub(super) fn input_grad_tiled(
        &self,
        means: Means<'_>,
        dy: &[f32],
        filters: &[f32],
        dx: &mut [f32],
    ) -> bool {
        let straight = self.tiles();
        let last = self.filters[0].saturating_sub(1);
        let tiles = Tiles {
            images: straight.images,
            input: straight.output,
            output: straight.input,
            before: straight.before.map(|before| last.saturating_sub(before)),
            from: straight.to,
            to: straight.from,
        };
        match self.tiled(&tiles) {
            Some(3) => convolve::<4, 3>(means, tiles, dy, (filters, true), dx),
            Some(_) => convolve::<2, 5>(means, tiles, dy, (filters, true), dx),
            None => return false,
        }
        true
    }

    /// The same for what flows back to the filters; what comes out may not be finite, and is not right then.
    pub(super) fn filter_grad_tiled(
        &self,
        means: Means<'_>,
        x: &[f32],
        dy: &[f32],
        df: &mut [f32],
    ) -> bool {
        let tiles = self.tiles();
        match self.tiled(&tiles) {
            Some(3) => filter_gradient::<4, 3>(means, tiles, x, dy, df),
            Some(_) => filter_gradient::<2, 5>(means, tiles, x, dy, df),
            None => return false,
        }
        df.chunks(64).all(is_finite)
    }
}

fn is_finite(xs: &[f32]) -> bool {
    xs.iter().fold(true, |all, x| all & (*x * 0.0 == 0.0))
}

/// The filters at the points: for each channel in, for each point, the channels out. With `turned` they are turned around first.
fn filters_at_points<const R: usize>(
    pool: &Pool,
    [c_in, c_out]: [usize; 2],
    filters: &[f32],
    turned: bool,
    to: &mut [f32],
) {
    parallel::chunks_mut(pool, to, ALL * c_out, |channel, to| {
        dispatch_fma(FiltersOfChannel::<R> {
            filters: &filters[channel * c_out..],
            size: (c_in * c_out, c_out),
            turned,
            to,
        });
    });
}

/// Filters at the points, for one channel in.
struct FiltersOfChannel<'a, const R: usize> {
    filters: &'a [f32],
    /// How far apart taps are, and the channels out.
    size: (usize, usize),
    turned: bool,
    to: &'a mut [f32],
}

impl<const R: usize> FmaWork for FiltersOfChannel<'_, R> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (apart, channels) = self.size;
        for first in (0..channels).step_by(S::WIDTH) {
            let tap = |i: usize, j: usize| {
                let at = match self.turned {
                    true => (R - 1 - i) * R + R - 1 - j,
                    false => i * R + j,
                };
                s.load(&self.filters[at * apart + first..])
            };
            let points = both::<S, Filters, R, POINTS>(s, square(s, tap));
            for (q, x) in points.as_flattened().iter().enumerate() {
                s.store(*x, &mut self.to[q * channels + first..]);
            }
        }
    }
}

/// Some tiles, whose inputs are put at the points.
struct Read<'a, const M: usize> {
    tiles: &'a Tiles,
    x: &'a [f32],
    own: Range<usize>,
    /// Of the tiles the row that the first one is in.
    row: usize,
    to: &'a mut [f32],
    apart: usize,
}

impl<const M: usize> FmaWork for Read<'_, M> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let across = self.tiles.counts(M).1;
        for (i, t) in self.own.enumerate() {
            let place = (self.row + t / across, t % across);
            let to = &mut self.to[i * self.tiles.from..];
            self.tiles.read::<S, M>(s, self.x, place, to, self.apart);
        }
    }
}

/// Some tiles of all images, whose inputs and what flows back to them are put at the points.
struct ReadBoth<'a, const M: usize> {
    tiles: &'a Tiles,
    x: &'a [f32],
    dy: &'a [f32],
    own: Range<usize>,
    inputs: &'a mut [f32],
    flows: &'a mut [f32],
    some: usize,
}

impl<const M: usize> FmaWork for ReadBoth<'_, M> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Tiles { from, to, .. } = *self.tiles;
        let (down, across) = self.tiles.counts(M);
        let (image, made) = self.tiles.sizes();
        for (i, t) in self.own.enumerate() {
            let (number, tile) = (t / (down * across), t % (down * across));
            let place = (tile / across, tile % across);
            let x = &self.x[number * image..][..image];
            let dy = &self.dy[number * made..][..made];
            let (inputs, flows) = (&mut self.inputs[i * from..], &mut self.flows[i * to..]);
            self.tiles
                .read::<S, M>(s, x, place, inputs, self.some * from);
            self.tiles.flow::<S, M>(s, dy, place, flows, self.some * to);
        }
    }
}

/// Outputs of a tile that are made of its products.
struct Write<'a, const M: usize> {
    tile: &'a Outputs<'a, M>,
    products: &'a [f32],
    apart: usize,
    y: &'a mut [f32],
}

impl<const M: usize> FmaWork for Write<'_, M> {
    type Out = bool;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> bool {
        self.tile.write(s, self.products, self.apart, self.y)
    }
}

/// The gradient of filters for one channel in, made of the sums at the points.
struct FiltersBackOfChannel<'a, const R: usize> {
    sums: &'a [f32],
    /// How far apart points are, and the channels out.
    size: (usize, usize),
    to: &'a mut [f32],
}

impl<const R: usize> FmaWork for FiltersBackOfChannel<'_, R> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (apart, channels) = self.size;
        for first in (0..channels).step_by(S::WIDTH) {
            let sum = |i: usize, j: usize| s.load(&self.sums[(i * POINTS + j) * apart + first..]);
            let taps = both::<S, FiltersBack, POINTS, R>(s, square(s, sum));
            for (tap, x) in taps.as_flattened().iter().enumerate() {
                s.store(*x, &mut self.to[tap * channels + first..]);
            }
        }
    }
}

impl Tiles {
    /// How many tiles of `m` outputs there are down and across an image.
    fn counts(&self, m: usize) -> (usize, usize) {
        (self.output[0].div_ceil(m), self.output[1].div_ceil(m))
    }

    /// Whether fewer products are fewer by more than the evaluations take. What is counted is the time of a product in a large matrix,
    /// as it was measured: small matrices take 26 terms more than they have, an input at a point 34, an output 17 or, of a larger
    /// tile, 40, a filter at a point 160, and sums term by term reach 85% of what the machine can do.
    fn are_worth_it(&self, size: usize) -> bool {
        let (from, to) = (self.from, self.to);
        let whole = |c: usize| c > 0 && c.is_multiple_of(WIDE);
        let (down, across) = self.counts(POINTS + 1 - size);
        let output = if size == 3 { 40 } else { 17 };
        let times = |factors: &[usize]| factors.iter().map(|n| *n as f64).product::<f64>();
        let each = times(&[from, to]) + times(&[26 + output, to]) + times(&[34, from]);
        let tiles = times(&[ALL, self.images, down, across]) * each + times(&[160 * ALL, from, to]);
        let [height, width] = self.output;
        let terms = times(&[size, size, self.images, height, width, from, to]) / 0.85;
        whole(from) && whole(to) && tiles < 0.95 * terms
    }

    /// How many tiles are computed together.
    fn together(&self) -> usize {
        (TOGETHER / (ALL * (self.from + self.to))).clamp(14, MOST)
    }

    /// Elements of an image read, and of one made.
    fn sizes(&self) -> (usize, usize) {
        let size = |[h, w]: [usize; 2], channels: usize| h * w * channels;
        (size(self.input, self.from), size(self.output, self.to))
    }

    /// Puts the inputs of a tile at the points, `apart` elements from one point to the next.
    #[inline(always)]
    fn read<S: Simd, const M: usize>(
        &self,
        s: S,
        x: &[f32],
        (down, right): (usize, usize),
        to: &mut [f32],
        apart: usize,
    ) {
        let ([height, width], channels) = (self.input, self.from);
        // The first inputs, counted from before the image.
        let (top, left) = (down * M, right * M);
        let inside = |at: usize, before: usize, size: usize| at.wrapping_sub(before) < size;
        for first in (0..channels).step_by(S::WIDTH) {
            let element = |i: usize, j: usize| {
                let (row, column) = (top + i, left + j);
                match inside(row, self.before[0], height) && inside(column, self.before[1], width) {
                    true => {
                        let (row, column) = (row - self.before[0], column - self.before[1]);
                        s.load(&x[(row * width + column) * channels + first..])
                    }
                    false => s.zero(),
                }
            };
            let points = both::<S, Inputs, POINTS, POINTS>(s, square(s, element));
            for (q, x) in points.as_flattened().iter().enumerate() {
                s.store(*x, &mut to[q * apart + first..]);
            }
        }
    }
}

/// A convolution, tile by tile. With `turned` the filters are those of the convolution that this one goes back.
fn convolve<const M: usize, const R: usize>(
    means: Means<'_>,
    tiles: Tiles,
    x: &[f32],
    (filters, turned): (&[f32], bool),
    y: &mut [f32],
) {
    let Tiles { from, to, .. } = tiles;
    let [c_in, c_out] = if turned { [to, from] } else { [from, to] };
    let (down, across) = tiles.counts(M);
    let some = tiles.together();
    let (image, made) = tiles.sizes();
    // Rows of tiles to a task, of nearly equal number.
    let rows = (some / across).clamp(1, down.max(1));
    let rows = down.div_ceil(down.div_ceil(rows).max(1)).max(1);
    let line = packed_b_len::<f32>(from, to);
    let room = f32::shelf(means.scratch);
    let own = ALL * some * (from + to);
    room.prepare(means.pool.threads() + 1, own);
    room.lend(ALL * (c_in * c_out + line), |buffer| {
        let (plain, lines) = buffer.split_at_mut(ALL * c_in * c_out);
        filters_at_points::<R>(means.pool, [c_in, c_out], filters, turned, plain);
        parallel::chunks_mut(means.pool, lines, line, |q, to| {
            let at_point = Matrix {
                data: &plain[q * c_out..],
                size: (c_in, c_out),
                strides: (ALL * c_out, 1),
            };
            pack_b(
                if turned {
                    at_point.transposed()
                } else {
                    at_point
                },
                to,
            );
        });
        let lines = &*lines;
        let size = rows * M * tiles.output[1] * to;
        parallel::grouped_chunks_mut(means.pool, y, made, size, |number, part, y| {
            let x = &x[number * image..][..image];
            let first = part * rows;
            let count = (down - first).min(rows) * across;
            room.lend(own, |room| {
                let (inputs, products) = room.split_at_mut(ALL * some * from);
                for begin in (0..count).step_by(some) {
                    let own = begin..count.min(begin + some);
                    let place = |t: usize| (first + t / across, t % across);
                    dispatch_fma(Read::<M> {
                        tiles: &tiles,
                        x,
                        own: own.clone(),
                        row: first,
                        to: inputs,
                        apart: some * from,
                    });
                    let starts: [usize; MOST] = std::array::from_fn(|i| i * from);
                    let places: [usize; MOST] = std::array::from_fn(|i| i * to);
                    for (q, b) in lines.chunks_exact(line).enumerate() {
                        let a = Indirect {
                            data: &inputs[q * some * from..][..some * from],
                            row_offsets: &starts[..own.len()],
                            run_offsets: &[0],
                            run_len: from,
                            stride: 1,
                        };
                        let y = &mut products[q * some * to..][..some * to];
                        multiply_indirect(y, &places[..own.len()], to, false, a, b);
                    }
                    for (i, t) in own.enumerate() {
                        let products = &products[i * to..];
                        let tile = Outputs::<M> {
                            tiles: &tiles,
                            row: place(t).0,
                            column: place(t).1,
                            first: first * M,
                        };
                        let finite = dispatch_fma(Write {
                            tile: &tile,
                            products,
                            apart: some * to,
                            y: &mut *y,
                        });
                        if !finite {
                            tile.write_by_terms::<R>(x, filters, turned, y);
                        }
                    }
                }
            });
        });
    });
}

/// Where the outputs of a tile go, in a part of an image that begins at a row.
struct Outputs<'a, const M: usize> {
    tiles: &'a Tiles,
    row: usize,
    column: usize,
    first: usize,
}

impl<const M: usize> Outputs<'_, M> {
    /// Where in the part an output goes, if the image has it.
    #[inline(always)]
    fn place(&self, i: usize, j: usize) -> Option<usize> {
        let [height, width] = self.tiles.output;
        let (row, column) = (self.row * M + i, self.column * M + j);
        (row < height && column < width)
            .then(|| ((row - self.first) * width + column) * self.tiles.to)
    }

    /// Makes outputs of the products at the points, which lie `apart`; says whether all are finite.
    #[inline(always)]
    fn write<S: Simd>(&self, s: S, products: &[f32], apart: usize, y: &mut [f32]) -> bool {
        let mut zero = s.zero();
        for first in (0..self.tiles.to).step_by(S::WIDTH) {
            let product =
                |i: usize, j: usize| s.load(&products[(i * POINTS + j) * apart + first..]);
            let outputs = both::<S, ToOutputs, POINTS, M>(s, square(s, product));
            for (i, outputs) in outputs.iter().enumerate() {
                for (j, output) in outputs.iter().enumerate() {
                    zero = s.fma(*output, 0.0, zero);
                    if let Some(at) = self.place(i, j) {
                        s.store(*output, &mut y[at + first..]);
                    }
                }
            }
        }
        let mut lanes = [0.0; WIDE];
        s.store(zero, &mut lanes);
        lanes.iter().all(|x| *x == 0.0)
    }

    /// The same from the inputs, term by term.
    fn write_by_terms<const R: usize>(
        &self,
        x: &[f32],
        filters: &[f32],
        turned: bool,
        y: &mut [f32],
    ) {
        let tiles = self.tiles;
        let ([height, width], channels) = (tiles.input, tiles.from);
        for (i, j) in (0..M * M).map(|n| (n / M, n % M)) {
            let Some(at) = self.place(i, j) else { continue };
            let y = &mut y[at..][..tiles.to];
            y.fill(0.0);
            for (k, l) in (0..R * R).map(|n| (n / R, n % R)) {
                let row = (self.row * M + i + k).wrapping_sub(tiles.before[0]);
                let column = (self.column * M + j + l).wrapping_sub(tiles.before[1]);
                if row >= height || column >= width {
                    continue;
                }
                let x = &x[(row * width + column) * channels..][..channels];
                let tap = match turned {
                    true => (R - 1 - k) * R + R - 1 - l,
                    false => k * R + l,
                };
                let filters = &filters[tap * channels * tiles.to..][..channels * tiles.to];
                for (c, x) in x.iter().enumerate() {
                    for (o, y) in y.iter_mut().enumerate() {
                        let filter = match turned {
                            true => filters[o * channels + c],
                            false => filters[c * tiles.to + o],
                        };
                        *y += *x * filter;
                    }
                }
            }
        }
    }
}

/// What flows back to filters: at each point a sum over all tiles, and from there what the filters are.
fn filter_gradient<const M: usize, const R: usize>(
    means: Means<'_>,
    tiles: Tiles,
    x: &[f32],
    dy: &[f32],
    df: &mut [f32],
) {
    let Tiles { from, to, .. } = tiles;
    let (down, across) = tiles.counts(M);
    let size = ALL * from * to;
    // Rows of tiles are shared out.
    let rows = tiles.images * down;
    let share = rows.div_ceil(PIECES).max(1);
    let pieces = rows.div_ceil(share).max(1);
    let room = f32::shelf(means.scratch);
    room.prepare(2 * means.pool.threads() + 1, own_room(&tiles));
    room.lend(pieces * size, |sums| {
        parallel::chunks_mut(means.pool, sums, size, |i, sums| {
            let own = i * share * across..rows.min((i + 1) * share) * across;
            add_tiles::<M>(&tiles, own, room, x, dy, sums);
        });
        // Pieces are added up, and become filters for each channel in.
        let (first, others) = sums.split_at_mut(size);
        let each = to * from.div_ceil(8);
        parallel::chunks_mut(means.pool, first, each, |i, sums| {
            for piece in others.chunks_exact(size) {
                let piece = &piece[i * each..][..sums.len()];
                sums.iter_mut().zip(piece).for_each(|(a, b)| *a += *b);
            }
        });
        let first = &*first;
        // Both are as long as the gradient.
        room.lend(R * R * from * to, |turned| {
            parallel::chunks_mut(means.pool, turned, R * R * to, |channel, turned| {
                dispatch_fma(FiltersBackOfChannel::<R> {
                    sums: &first[channel * to..],
                    size: (from * to, to),
                    to: turned,
                });
            });
            for (i, df) in df.chunks_exact_mut(to).enumerate() {
                let (tap, channel) = (i / from, i % from);
                df.copy_from_slice(&turned[(channel * R * R + tap) * to..][..to]);
            }
        });
    });
}

/// The elements that the tiles of a piece take at a time, or a product of them.
fn own_room(tiles: &Tiles) -> usize {
    let (some, Tiles { from, to, .. }) = (tiles.together(), *tiles);
    let matrix = |columns: usize| Matrix {
        data: &[] as &[f32],
        size: (some, columns),
        strides: (columns, 1),
    };
    (ALL * some * (from + to)).max(gemm::workspace_len(&matrix(from).transposed(), &matrix(to)))
}

/// Sums the products of some tiles, counted over all images.
fn add_tiles<const M: usize>(
    tiles: &Tiles,
    own: Range<usize>,
    room: &Shelf<f32>,
    x: &[f32],
    dy: &[f32],
    sums: &mut [f32],
) {
    let Tiles { from, to, .. } = *tiles;
    let some = tiles.together();
    room.lend(ALL * some * (from + to), |own_room| {
        let (inputs, flows) = own_room.split_at_mut(ALL * some * from);
        let begin = own.start;
        for first in own.clone().step_by(some) {
            let count = some.min(own.end - first);
            dispatch_fma(ReadBoth::<M> {
                tiles,
                x,
                dy,
                own: first..first + count,
                inputs,
                flows,
                some,
            });
            for (q, sums) in sums.chunks_exact_mut(from * to).enumerate() {
                let left = Matrix {
                    data: &inputs[q * some * from..],
                    size: (count, from),
                    strides: (from, 1),
                };
                let right = Matrix {
                    data: &flows[q * some * to..],
                    size: (count, to),
                    strides: (to, 1),
                };
                let sum = Product {
                    data: sums,
                    row_stride: to,
                    accumulate: first > begin,
                };
                multiply(room, sum, left.transposed(), right);
            }
        }
    });
}

impl Tiles {
    /// Puts what flows back to a tile at the points, `apart` elements from one point to the next.
    #[inline(always)]
    fn flow<S: Simd, const M: usize>(
        &self,
        s: S,
        dy: &[f32],
        (down, right): (usize, usize),
        to: &mut [f32],
        apart: usize,
    ) {
        let ([height, width], channels) = (self.output, self.to);
        for first in (0..channels).step_by(S::WIDTH) {
            let element = |i: usize, j: usize| {
                let (row, column) = (down * M + i, right * M + j);
                match row < height && column < width {
                    true => s.load(&dy[(row * width + column) * channels + first..]),
                    false => s.zero(),
                }
            };
            let points = both::<S, FromOutputs, M, POINTS>(s, square(s, element));
            for (q, x) in points.as_flattened().iter().enumerate() {
                s.store(*x, &mut to[q * apart + first..]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::points::numbers;
    use super::*;
    use crate::exec::multiversion::dispatch_fma_256;

    /// The sums as they stand, in f64: of a convolution, and of the gradient of its filters.
    fn by_terms<const R: usize>(
        tiles: &Tiles,
        x: &[f32],
        filters: Result<(&[f32], bool), &[f32]>,
    ) -> Vec<f64> {
        let Tiles { from, to, .. } = *tiles;
        let ([h, w], [oh, ow]) = (tiles.input, tiles.output);
        let made = match filters {
            Ok(_) => tiles.images * oh * ow * to,
            Err(_) => R * R * from * to,
        };
        let mut sums = vec![0.0; made];
        for n in 0..tiles.images {
            for (i, j) in (0..oh * ow).map(|p| (p / ow, p % ow)) {
                for (k, l) in (0..R * R).map(|t| (t / R, t % R)) {
                    let row = (i + k).wrapping_sub(tiles.before[0]);
                    let column = (j + l).wrapping_sub(tiles.before[1]);
                    if row >= h || column >= w {
                        continue;
                    }
                    for (c, o) in (0..from * to).map(|p| (p / to, p % to)) {
                        let x = f64::from(x[((n * h + row) * w + column) * from + c]);
                        let output = ((n * oh + i) * ow + j) * to + o;
                        let straight = ((k * R + l) * from + c) * to + o;
                        let turned = (((R - 1 - k) * R + R - 1 - l) * to + o) * from + c;
                        match filters {
                            Ok((filters, false)) => {
                                sums[output] += x * f64::from(filters[straight])
                            }
                            Ok((filters, true)) => sums[output] += x * f64::from(filters[turned]),
                            Err(dy) => sums[straight] += x * f64::from(dy[output]),
                        }
                    }
                }
            }
        }
        sums
    }

    /// Equal up to the rounding of the largest; what is not finite is the same.
    fn close(what: &str, found: &[f32], wanted: &[f64]) {
        let largest = wanted.iter().filter(|x| x.is_finite());
        let largest = largest.fold(1.0, |a: f64, b| a.max(b.abs()));
        for (i, (found, wanted)) in found.iter().zip(wanted).enumerate() {
            let found = f64::from(*found);
            let same = match wanted.is_finite() {
                true => (found - wanted).abs() < 4e-6 * largest,
                false => found.is_nan() == wanted.is_nan() && !found.is_finite(),
            };
            assert!(same, "{what}, {i}: {found} for {wanted}");
        }
    }

    fn whole<const M: usize, const R: usize>(tiles: Tiles, strange: Option<f32>) {
        let scratch = crate::library::Scratch::default();
        let pool = Pool::new(2);
        let means = Means {
            pool: &pool,
            scratch: &scratch,
        };
        let (image, made) = tiles.sizes();
        let mut x = numbers(tiles.images * image);
        let filters = numbers(R * R * tiles.from * tiles.to);
        if let Some(strange) = strange {
            let middle = x.len() / 2;
            x[middle] = strange;
        }
        for turned in [false, true] {
            let mut y = vec![0.0; tiles.images * made];
            convolve::<M, R>(means, tiles, &x, (&filters, turned), &mut y);
            let wanted = by_terms::<R>(&tiles, &x, Ok((&filters, turned)));
            close(&format!("{tiles:?} {R} {turned}"), &y, &wanted);
        }
        let (dy, mut df) = (numbers(tiles.images * made), vec![0.0; filters.len()]);
        filter_gradient::<M, R>(means, tiles, &x, &dy, &mut df);
        if strange.is_none() {
            let wanted = by_terms::<R>(&tiles, &x, Err(&dy));
            close(&format!("{tiles:?} {R}"), &df, &wanted);
        }
    }

    #[test]
    fn convolutions_are_the_sums_of_their_windows() {
        if !has_fma() {
            return;
        }
        for (images, input, before, size) in [
            (2, [9, 7], [1, 1], 3),
            (1, [4, 17], [0, 2], 3),
            (3, [6, 6], [2, 0], 5),
            (1, [12, 5], [4, 2], 5),
        ] {
            let tiles = Tiles {
                images,
                input,
                output: [0, 1].map(|i| input[i] + 2 * before[i] + 1 - size),
                before,
                from: 32,
                to: 16,
            };
            for strange in [None, Some(f32::NAN), Some(f32::INFINITY), Some(3e38)] {
                match size {
                    3 => whole::<4, 3>(tiles, strange),
                    _ => whole::<2, 5>(tiles, strange),
                }
            }
        }
    }

    #[test]
    fn tiles_are_read_and_written_alike_by_all_vectors() {
        if !has_fma() {
            return;
        }
        let tiles = Tiles {
            images: 1,
            input: [9, 7],
            output: [9, 7],
            before: [1, 1],
            from: 32,
            to: 32,
        };
        let (x, products) = (numbers(9 * 7 * 32), numbers(ALL * 6 * 32));
        let mut read = [vec![0.0; ALL * 6 * 32], vec![0.0; ALL * 6 * 32]];
        let mut written = [vec![0.0; 9 * 7 * 32], vec![0.0; 9 * 7 * 32]];
        for (i, (read, written)) in read.iter_mut().zip(&mut written).enumerate() {
            let tile = Outputs::<4> {
                tiles: &tiles,
                row: 2,
                column: 1,
                first: 0,
            };
            let work = Read::<4> {
                tiles: &tiles,
                x: &x,
                own: 0..6,
                row: 0,
                to: read,
                apart: 6 * 32,
            };
            let write = Write::<4> {
                tile: &tile,
                products: &products,
                apart: 6 * 32,
                y: written,
            };
            match i {
                0 => {
                    dispatch_fma(work);
                    assert!(dispatch_fma(write));
                }
                _ => {
                    dispatch_fma_256(work);
                    assert!(dispatch_fma_256(write));
                }
            }
        }
        assert_eq!(read[0], read[1]);
        assert_eq!(written[0], written[1]);
    }
}
