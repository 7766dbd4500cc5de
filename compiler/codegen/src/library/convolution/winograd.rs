//! Winograd convolution F(4x4, 3x3) and F(2x2, 5x5) (Winograd 1980; Lavin and Gray 2016), with interpolation points 0, ±3/4, ±3/2, ∞.
//!
//! A tile of `M` x `M` outputs reads 6 x 6 inputs. Input tiles and filters are transformed to the 36 points, multiplied elementwise, and
//! transformed back: Aᵀ[(G g Gᵀ) ⊙ (Bᵀ d B)]A. A tile takes 36 multiplications for each pair of channels, where direct convolution takes
//! 100 (F(2x2, 5x5)) or 144 (F(4x4, 3x3)). At each of the 36 points the products over all channels are one GEMM.
//!
//! The points are chosen for small errors: two to three times those of direct convolution. Errors are relative to the tile,
//! though: an output has the rounding error of the largest input of its tile, not only of its own window. Infinities and NaN would
//! spread over the tile in the same way, so tiles and gradients with non-finite results are recomputed by direct convolution.

mod transforms;

use std::ops::Range;

use super::{Convolution, ExecContext};
use crate::cpu::Cpu;
use crate::exec::gemm::{
    self, Indirect, Matrix, Product, multiply, multiply_indirect, pack_b, packed_b_len,
};
use crate::exec::multiversion::{FmaWork, Simd, dispatch_fma};
use crate::exec::{parallel, pool::Pool};
use crate::library::{BufferPool, Pooled};
use transforms::{
    FilterTransform, FilterTranspose, InputTransform, OutputTransform, OutputTranspose, POINTS,
    TILE_POINTS, load_tile, transform_2d,
};

/// Channels are multiples of this: the lanes of the widest vector.
const CHANNEL_BLOCK: usize = 16;

/// The most tiles of a block: the rows of its GEMMs.
const MAX_BLOCK_TILES: usize = 64;
/// The most transformed elements of a block, which stay in the L2 cache.
const MAX_BLOCK_ELEMENTS: usize = 3 << 16;

/// The number of partial sums of the gradient of the filters (split-K): fixed, so that results do not depend on the threads.
const PARTIAL_SUMS: usize = 8;

/// The geometry of a Winograd convolution.
#[derive(Debug, Clone, Copy)]
struct Tiling {
    images: usize,
    /// Input height and width.
    input: [usize; 2],
    /// Output height and width.
    output: [usize; 2],
    /// The padding before the input.
    pad_before: [usize; 2],
    /// Input channels.
    from: usize,
    /// Output channels.
    to: usize,
}

impl Convolution {
    /// The filter size R, 3 or 5, where Winograd is supported and profitable.
    fn winograd_size(&self, cpu: Cpu, tiling: &Tiling) -> Option<usize> {
        let [kh, kw, ..] = self.filters;
        let dense = [&self.down, &self.right]
            .iter()
            .all(|a| a.stride == 1 && a.dilation == 1 && a.pad_before < a.kernel);
        let fits =
            cpu.has_avx2_fma() && self.groups == 1 && dense && kh == kw && [3, 5].contains(&kh);
        Some(kh).filter(|size| fits && tiling.is_profitable(*size))
    }

    fn tiling(&self) -> Tiling {
        Tiling {
            images: self.x[0],
            input: [self.x[1], self.x[2]],
            output: [self.down.outputs, self.right.outputs],
            pad_before: [self.down.pad_before, self.right.pad_before],
            from: self.filters[2],
            to: self.filters[3],
        }
    }

    /// Computes the convolution if Winograd is profitable; returns whether it did.
    pub(super) fn forward_winograd(
        &self,
        ctx: ExecContext<'_>,
        x: &[f32],
        filters: &[f32],
        y: &mut [f32],
    ) -> bool {
        let tiling = self.tiling();
        match self.winograd_size(ctx.cpu, &tiling) {
            Some(3) => convolve::<4, 3>(ctx, tiling, x, (filters, false), y),
            Some(_) => convolve::<2, 5>(ctx, tiling, x, (filters, false), y),
            None => return false,
        }
        true
    }

    /// Computes the gradient of the input, a convolution with flipped and transposed filters, if Winograd is profitable; returns whether
    /// it did.
    pub(super) fn input_grad_winograd(
        &self,
        ctx: ExecContext<'_>,
        dy: &[f32],
        filters: &[f32],
        dx: &mut [f32],
    ) -> bool {
        let forward = self.tiling();
        let last = self.filters[0].saturating_sub(1);
        let tiling = Tiling {
            images: forward.images,
            input: forward.output,
            output: forward.input,
            pad_before: forward.pad_before.map(|pad| last.saturating_sub(pad)),
            from: forward.to,
            to: forward.from,
        };
        match self.winograd_size(ctx.cpu, &tiling) {
            Some(3) => convolve::<4, 3>(ctx, tiling, dy, (filters, true), dx),
            Some(_) => convolve::<2, 5>(ctx, tiling, dy, (filters, true), dx),
            None => return false,
        }
        true
    }

    /// Computes the gradient of the filters if Winograd is profitable; false also where the result is not finite, which is invalid.
    pub(super) fn filter_grad_winograd(
        &self,
        ctx: ExecContext<'_>,
        x: &[f32],
        dy: &[f32],
        df: &mut [f32],
    ) -> bool {
        let tiling = self.tiling();
        match self.winograd_size(ctx.cpu, &tiling) {
            Some(3) => filter_gradient::<4, 3>(ctx, tiling, x, dy, df),
            Some(_) => filter_gradient::<2, 5>(ctx, tiling, x, dy, df),
            None => return false,
        }
        df.chunks(64).all(is_finite)
    }
}

/// Whether all are finite: x · 0 is NaN for infinities and NaN. Without a branch, so that it is vectorized.
fn is_finite(xs: &[f32]) -> bool {
    xs.iter().fold(true, |all, x| all & (*x * 0.0 == 0.0))
}

/// Transforms the filters: for each input channel, for each point, the output channels. With `flipped` they are rotated by 180° first.
fn transform_filters<const R: usize>(
    (cpu, pool): (Cpu, &Pool),
    [c_in, c_out]: [usize; 2],
    filters: &[f32],
    flipped: bool,
    to: &mut [f32],
) {
    parallel::chunks_mut(pool, to, TILE_POINTS * c_out, |channel, to| {
        dispatch_fma(
            cpu,
            TransformFilters::<R> {
                filters: &filters[channel * c_out..],
                size: (c_in * c_out, c_out),
                flipped,
                to,
            },
        );
    });
}

/// The filter transform of one input channel.
struct TransformFilters<'a, const R: usize> {
    filters: &'a [f32],
    /// The stride of taps, and the output channels.
    size: (usize, usize),
    flipped: bool,
    to: &'a mut [f32],
}

impl<const R: usize> FmaWork for TransformFilters<'_, R> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (point_stride, channels) = self.size;
        for first in (0..channels).step_by(S::WIDTH) {
            let tap = |i: usize, j: usize| {
                let at = match self.flipped {
                    true => (R - 1 - i) * R + R - 1 - j,
                    false => i * R + j,
                };
                s.load(&self.filters[at * point_stride + first..])
            };
            let points = transform_2d::<S, FilterTransform, R, POINTS>(s, load_tile(s, tap));
            for (q, x) in points.as_flattened().iter().enumerate() {
                s.store(*x, &mut self.to[q * channels + first..]);
            }
        }
    }
}

/// The input transform of some tiles.
struct TransformInputs<'a, const M: usize> {
    tiling: &'a Tiling,
    x: &'a [f32],
    own: Range<usize>,
    /// The tile row of the first tile.
    row: usize,
    to: &'a mut [f32],
    point_stride: usize,
}

impl<const M: usize> FmaWork for TransformInputs<'_, M> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let across = self.tiling.counts(M).1;
        for (i, t) in self.own.enumerate() {
            let tile_at = (self.row + t / across, t % across);
            let to = &mut self.to[i * self.tiling.from..];
            self.tiling
                .transform_input::<S, M>(s, self.x, tile_at, to, self.point_stride);
        }
    }
}

/// The transforms of inputs and cotangents of some tiles, counted over all images.
struct TransformForFilterGrad<'a, const M: usize> {
    tiling: &'a Tiling,
    x: &'a [f32],
    dy: &'a [f32],
    own: Range<usize>,
    inputs: &'a mut [f32],
    cotangents: &'a mut [f32],
    block_tiles: usize,
}

impl<const M: usize> FmaWork for TransformForFilterGrad<'_, M> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Tiling { from, to, .. } = *self.tiling;
        let (down, across) = self.tiling.counts(M);
        let (input_size, output_size) = self.tiling.sizes();
        for (i, t) in self.own.enumerate() {
            let (image, tile) = (t / (down * across), t % (down * across));
            let tile_at = (tile / across, tile % across);
            let x = &self.x[image * input_size..][..input_size];
            let dy = &self.dy[image * output_size..][..output_size];
            let inputs = &mut self.inputs[i * from..];
            let cotangents = &mut self.cotangents[i * to..];
            self.tiling
                .transform_input::<S, M>(s, x, tile_at, inputs, self.block_tiles * from);
            self.tiling.transform_cotangent::<S, M>(
                s,
                dy,
                tile_at,
                cotangents,
                self.block_tiles * to,
            );
        }
    }
}

/// The output transform of a tile; returns whether all outputs are finite.
struct TransformOutputs<'a, const M: usize> {
    tile: &'a OutputTile<'a, M>,
    products: &'a [f32],
    point_stride: usize,
    y: &'a mut [f32],
}

impl<const M: usize> FmaWork for TransformOutputs<'_, M> {
    type Out = bool;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> bool {
        self.tile.write(s, self.products, self.point_stride, self.y)
    }
}

/// The transposed filter transform of one input channel, from the sums at the points to the gradient of the filters.
struct TransformFilterGrad<'a, const R: usize> {
    sums: &'a [f32],
    /// The stride of points, and the output channels.
    size: (usize, usize),
    to: &'a mut [f32],
}

impl<const R: usize> FmaWork for TransformFilterGrad<'_, R> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (point_stride, channels) = self.size;
        for first in (0..channels).step_by(S::WIDTH) {
            let sum =
                |i: usize, j: usize| s.load(&self.sums[(i * POINTS + j) * point_stride + first..]);
            let taps = transform_2d::<S, FilterTranspose, POINTS, R>(s, load_tile(s, sum));
            for (tap, x) in taps.as_flattened().iter().enumerate() {
                s.store(*x, &mut self.to[tap * channels + first..]);
            }
        }
    }
}

impl Tiling {
    /// The number of tiles of `m` outputs down and across an image.
    fn counts(&self, m: usize) -> (usize, usize) {
        (self.output[0].div_ceil(m), self.output[1].div_ceil(m))
    }

    /// The cost model: whether Winograd is faster than implicit GEMM. Costs are in multiply-adds of a large GEMM,
    /// as measured: 26 for the overhead of a small GEMM, 34 for the transform of an input at a point, 17 of an output or, of
    /// F(4x4, 3x3), 40, and 160 of a filter at a point; implicit GEMM reaches 85% of peak.
    fn is_profitable(&self, size: usize) -> bool {
        let (from, to) = (self.from, self.to);
        let is_blocked = |c: usize| c > 0 && c.is_multiple_of(CHANNEL_BLOCK);
        let (down, across) = self.counts(POINTS + 1 - size);
        let output = if size == 3 { 40 } else { 17 };
        let times = |factors: &[usize]| factors.iter().map(|n| *n as f64).product::<f64>();
        let each = times(&[from, to]) + times(&[26 + output, to]) + times(&[34, from]);
        let winograd = times(&[TILE_POINTS, self.images, down, across]) * each
            + times(&[160 * TILE_POINTS, from, to]);
        let [height, width] = self.output;
        let direct = times(&[size, size, self.images, height, width, from, to]) / 0.85;
        is_blocked(from) && is_blocked(to) && winograd < 0.95 * direct
    }

    /// The tiles of a block: as many as fit the L2 cache, but at least the rows of a register tile of GEMM (MR of AVX-512).
    fn block_tiles(&self) -> usize {
        (MAX_BLOCK_ELEMENTS / (TILE_POINTS * (self.from + self.to))).clamp(14, MAX_BLOCK_TILES)
    }

    /// Elements of an input image, and of an output image.
    fn sizes(&self) -> (usize, usize) {
        let size = |[h, w]: [usize; 2], channels: usize| h * w * channels;
        (size(self.input, self.from), size(self.output, self.to))
    }

    /// The input transform Bᵀ d B of a tile, with stride `point_stride` from point to point.
    #[inline(always)]
    fn transform_input<S: Simd, const M: usize>(
        &self,
        s: S,
        x: &[f32],
        (down, right): (usize, usize),
        to: &mut [f32],
        point_stride: usize,
    ) {
        let ([height, width], channels) = (self.input, self.from);
        // The first inputs, counted from the start of the padding.
        let (top, left) = (down * M, right * M);
        let inside = |at: usize, pad: usize, size: usize| at.wrapping_sub(pad) < size;
        for first in (0..channels).step_by(S::WIDTH) {
            let element = |i: usize, j: usize| {
                let (row, column) = (top + i, left + j);
                match inside(row, self.pad_before[0], height)
                    && inside(column, self.pad_before[1], width)
                {
                    true => {
                        let (row, column) = (row - self.pad_before[0], column - self.pad_before[1]);
                        s.load(&x[(row * width + column) * channels + first..])
                    }
                    false => s.zero(),
                }
            };
            let points =
                transform_2d::<S, InputTransform, POINTS, POINTS>(s, load_tile(s, element));
            for (q, x) in points.as_flattened().iter().enumerate() {
                s.store(*x, &mut to[q * point_stride + first..]);
            }
        }
    }
}

/// A Winograd convolution. With `flipped` it is the gradient of the input: filters are flipped and transposed.
fn convolve<const M: usize, const R: usize>(
    ctx: ExecContext<'_>,
    tiling: Tiling,
    x: &[f32],
    (filters, flipped): (&[f32], bool),
    y: &mut [f32],
) {
    let Tiling { from, to, .. } = tiling;
    // The channels of the filters as they are stored.
    let [c_in, c_out] = if flipped { [to, from] } else { [from, to] };
    let (down, across) = tiling.counts(M);
    let block_tiles = tiling.block_tiles();
    let (input_size, output_size) = tiling.sizes();
    // Tile rows of a task, balanced.
    let rows = (block_tiles / across).clamp(1, down.max(1));
    let rows = down.div_ceil(down.div_ceil(rows).max(1)).max(1);
    let packed_len = packed_b_len::<f32>(from, to);
    let buffers = f32::buffers(ctx.scratch);
    let block_len = TILE_POINTS * block_tiles * (from + to);
    buffers.prepare(ctx.pool.threads() + 1, block_len);
    buffers.with(TILE_POINTS * (c_in * c_out + packed_len), |buffer| {
        let (transformed, packed_filters) = buffer.split_at_mut(TILE_POINTS * c_in * c_out);
        transform_filters::<R>(
            (ctx.cpu, ctx.pool),
            [c_in, c_out],
            filters,
            flipped,
            transformed,
        );
        parallel::chunks_mut(ctx.pool, packed_filters, packed_len, |q, to| {
            let at_point = Matrix {
                data: &transformed[q * c_out..],
                size: (c_in, c_out),
                strides: (TILE_POINTS * c_out, 1),
            };
            pack_b(
                ctx.cpu,
                if flipped {
                    at_point.transposed()
                } else {
                    at_point
                },
                to,
            );
        });
        let packed_filters = &*packed_filters;
        let size = rows * M * tiling.output[1] * to;
        parallel::grouped_chunks_mut(ctx.pool, y, output_size, size, |image, band, y| {
            let x = &x[image * input_size..][..input_size];
            let first = band * rows;
            let count = (down - first).min(rows) * across;
            buffers.with(block_len, |buffer| {
                let (inputs, products) = buffer.split_at_mut(TILE_POINTS * block_tiles * from);
                for begin in (0..count).step_by(block_tiles) {
                    let own = begin..count.min(begin + block_tiles);
                    let tile_at = |t: usize| (first + t / across, t % across);
                    dispatch_fma(
                        ctx.cpu,
                        TransformInputs::<M> {
                            tiling: &tiling,
                            x,
                            own: own.clone(),
                            row: first,
                            to: inputs,
                            point_stride: block_tiles * from,
                        },
                    );
                    let starts: [usize; MAX_BLOCK_TILES] = std::array::from_fn(|i| i * from);
                    let offsets: [usize; MAX_BLOCK_TILES] = std::array::from_fn(|i| i * to);
                    for (q, b) in packed_filters.chunks_exact(packed_len).enumerate() {
                        let a = Indirect {
                            data: &inputs[q * block_tiles * from..][..block_tiles * from],
                            row_offsets: &starts[..own.len()],
                            run_offsets: &[0],
                            run_len: from,
                            stride: 1,
                        };
                        let y = &mut products[q * block_tiles * to..][..block_tiles * to];
                        multiply_indirect(ctx.cpu, y, &offsets[..own.len()], to, false, a, b);
                    }
                    for (i, t) in own.enumerate() {
                        let products = &products[i * to..];
                        let tile = OutputTile::<M> {
                            tiling: &tiling,
                            row: tile_at(t).0,
                            column: tile_at(t).1,
                            first: first * M,
                        };
                        let finite = dispatch_fma(
                            ctx.cpu,
                            TransformOutputs {
                                tile: &tile,
                                products,
                                point_stride: block_tiles * to,
                                y: &mut *y,
                            },
                        );
                        if !finite {
                            tile.write_direct::<R>(x, filters, flipped, y);
                        }
                    }
                }
            });
        });
    });
}

/// The outputs of a tile, in a band of an image that begins at row `first`.
struct OutputTile<'a, const M: usize> {
    tiling: &'a Tiling,
    row: usize,
    column: usize,
    first: usize,
}

impl<const M: usize> OutputTile<'_, M> {
    /// The offset of an output in the band, if it is inside the image.
    #[inline(always)]
    fn offset(&self, i: usize, j: usize) -> Option<usize> {
        let [height, width] = self.tiling.output;
        let (row, column) = (self.row * M + i, self.column * M + j);
        (row < height && column < width)
            .then(|| ((row - self.first) * width + column) * self.tiling.to)
    }

    /// The output transform Aᵀ p A of the products at the points, with stride `point_stride`; returns whether all outputs are finite.
    #[inline(always)]
    fn write<S: Simd>(&self, s: S, products: &[f32], point_stride: usize, y: &mut [f32]) -> bool {
        let mut zero = s.zero();
        for first in (0..self.tiling.to).step_by(S::WIDTH) {
            let product =
                |i: usize, j: usize| s.load(&products[(i * POINTS + j) * point_stride + first..]);
            let outputs = transform_2d::<S, OutputTransform, POINTS, M>(s, load_tile(s, product));
            for (i, outputs) in outputs.iter().enumerate() {
                for (j, output) in outputs.iter().enumerate() {
                    zero = s.fma(*output, 0.0, zero);
                    if let Some(at) = self.offset(i, j) {
                        s.store(*output, &mut y[at + first..]);
                    }
                }
            }
        }
        let mut lanes = [0.0; CHANNEL_BLOCK];
        s.store(zero, &mut lanes);
        lanes.iter().all(|x| *x == 0.0)
    }

    /// Computes the outputs of the tile by direct convolution.
    fn write_direct<const R: usize>(
        &self,
        x: &[f32],
        filters: &[f32],
        flipped: bool,
        y: &mut [f32],
    ) {
        let tiling = self.tiling;
        let ([height, width], channels) = (tiling.input, tiling.from);
        for (i, j) in (0..M * M).map(|n| (n / M, n % M)) {
            let Some(at) = self.offset(i, j) else {
                continue;
            };
            let y = &mut y[at..][..tiling.to];
            y.fill(0.0);
            for (k, l) in (0..R * R).map(|n| (n / R, n % R)) {
                let row = (self.row * M + i + k).wrapping_sub(tiling.pad_before[0]);
                let column = (self.column * M + j + l).wrapping_sub(tiling.pad_before[1]);
                if row >= height || column >= width {
                    continue;
                }
                let x = &x[(row * width + column) * channels..][..channels];
                let tap = match flipped {
                    true => (R - 1 - k) * R + R - 1 - l,
                    false => k * R + l,
                };
                let filters = &filters[tap * channels * tiling.to..][..channels * tiling.to];
                for (c, x) in x.iter().enumerate() {
                    for (o, y) in y.iter_mut().enumerate() {
                        let filter = match flipped {
                            true => filters[o * channels + c],
                            false => filters[c * tiling.to + o],
                        };
                        *y += *x * filter;
                    }
                }
            }
        }
    }
}

/// The gradient of the filters: at each point a sum over all tiles, then the transposed filter transform.
fn filter_gradient<const M: usize, const R: usize>(
    ctx: ExecContext<'_>,
    tiling: Tiling,
    x: &[f32],
    dy: &[f32],
    df: &mut [f32],
) {
    let Tiling { from, to, .. } = tiling;
    let (down, across) = tiling.counts(M);
    let size = TILE_POINTS * from * to;
    // Tile rows are divided among the partial sums.
    let rows = tiling.images * down;
    let share = rows.div_ceil(PARTIAL_SUMS).max(1);
    let partials = rows.div_ceil(share).max(1);
    let buffers = f32::buffers(ctx.scratch);
    buffers.prepare(2 * ctx.pool.threads() + 1, block_elements(ctx.cpu, &tiling));
    buffers.with(partials * size, |sums| {
        parallel::chunks_mut(ctx.pool, sums, size, |i, sums| {
            let own = i * share * across..rows.min((i + 1) * share) * across;
            add_tiles::<M>(ctx.cpu, &tiling, own, buffers, x, dy, sums);
        });
        // Partial sums are added in order, each point in 8 chunks, and transformed to filters for each input channel.
        let (first, others) = sums.split_at_mut(size);
        let each = to * from.div_ceil(8);
        parallel::chunks_mut(ctx.pool, first, each, |i, sums| {
            for partial in others.chunks_exact(size) {
                let partial = &partial[i * each..][..sums.len()];
                sums.iter_mut().zip(partial).for_each(|(a, b)| *a += *b);
            }
        });
        let first = &*first;
        // As long as the gradient, but channel-major.
        buffers.with(R * R * from * to, |by_channel| {
            parallel::chunks_mut(ctx.pool, by_channel, R * R * to, |channel, by_channel| {
                dispatch_fma(
                    ctx.cpu,
                    TransformFilterGrad::<R> {
                        sums: &first[channel * to..],
                        size: (from * to, to),
                        to: by_channel,
                    },
                );
            });
            for (i, df) in df.chunks_exact_mut(to).enumerate() {
                let (tap, channel) = (i / from, i % from);
                df.copy_from_slice(&by_channel[(channel * R * R + tap) * to..][..to]);
            }
        });
    });
}

/// The most elements of a buffer: the transformed elements of a block of tiles, or the packing workspace of its GEMM.
fn block_elements(cpu: Cpu, tiling: &Tiling) -> usize {
    let (block_tiles, Tiling { from, to, .. }) = (tiling.block_tiles(), *tiling);
    let matrix = |columns: usize| Matrix {
        data: &[] as &[f32],
        size: (block_tiles, columns),
        strides: (columns, 1),
    };
    (TILE_POINTS * block_tiles * (from + to)).max(gemm::workspace_len(
        cpu,
        &matrix(from).transposed(),
        &matrix(to),
    ))
}

/// Accumulates the products of some tiles, counted over all images.
fn add_tiles<const M: usize>(
    cpu: Cpu,
    tiling: &Tiling,
    own: Range<usize>,
    buffers: &BufferPool<f32>,
    x: &[f32],
    dy: &[f32],
    sums: &mut [f32],
) {
    let Tiling { from, to, .. } = *tiling;
    let block_tiles = tiling.block_tiles();
    buffers.with(TILE_POINTS * block_tiles * (from + to), |block| {
        let (inputs, cotangents) = block.split_at_mut(TILE_POINTS * block_tiles * from);
        let begin = own.start;
        for first in own.clone().step_by(block_tiles) {
            let count = block_tiles.min(own.end - first);
            dispatch_fma(
                cpu,
                TransformForFilterGrad::<M> {
                    tiling,
                    x,
                    dy,
                    own: first..first + count,
                    inputs,
                    cotangents,
                    block_tiles,
                },
            );
            for (q, sums) in sums.chunks_exact_mut(from * to).enumerate() {
                let left = Matrix {
                    data: &inputs[q * block_tiles * from..],
                    size: (count, from),
                    strides: (from, 1),
                };
                let right = Matrix {
                    data: &cotangents[q * block_tiles * to..],
                    size: (count, to),
                    strides: (to, 1),
                };
                let sum = Product {
                    data: sums,
                    row_stride: to,
                    accumulate: first > begin,
                };
                multiply(cpu, buffers, sum, left.transposed(), right);
            }
        }
    });
}

impl Tiling {
    /// The transposed output transform A dy Aᵀ of the cotangents of a tile, with stride `point_stride` from point to point.
    #[inline(always)]
    fn transform_cotangent<S: Simd, const M: usize>(
        &self,
        s: S,
        dy: &[f32],
        (down, right): (usize, usize),
        to: &mut [f32],
        point_stride: usize,
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
            let points = transform_2d::<S, OutputTranspose, M, POINTS>(s, load_tile(s, element));
            for (q, x) in points.as_flattened().iter().enumerate() {
                s.store(*x, &mut to[q * point_stride + first..]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::transforms::numbers;
    use super::*;
    use crate::exec::multiversion::dispatch_fma_256;

    /// Direct convolution in f64, or the gradient of its filters.
    fn direct<const R: usize>(
        tiling: &Tiling,
        x: &[f32],
        filters: Result<(&[f32], bool), &[f32]>,
    ) -> Vec<f64> {
        let Tiling { from, to, .. } = *tiling;
        let ([h, w], [oh, ow]) = (tiling.input, tiling.output);
        let output_size = match filters {
            Ok(_) => tiling.images * oh * ow * to,
            Err(_) => R * R * from * to,
        };
        let mut sums = vec![0.0; output_size];
        for n in 0..tiling.images {
            for (i, j) in (0..oh * ow).map(|p| (p / ow, p % ow)) {
                for (k, l) in (0..R * R).map(|t| (t / R, t % R)) {
                    let row = (i + k).wrapping_sub(tiling.pad_before[0]);
                    let column = (j + l).wrapping_sub(tiling.pad_before[1]);
                    if row >= h || column >= w {
                        continue;
                    }
                    for (c, o) in (0..from * to).map(|p| (p / to, p % to)) {
                        let x = f64::from(x[((n * h + row) * w + column) * from + c]);
                        let output = ((n * oh + i) * ow + j) * to + o;
                        let forward = ((k * R + l) * from + c) * to + o;
                        let flipped = (((R - 1 - k) * R + R - 1 - l) * to + o) * from + c;
                        match filters {
                            Ok((filters, false)) => sums[output] += x * f64::from(filters[forward]),
                            Ok((filters, true)) => sums[output] += x * f64::from(filters[flipped]),
                            Err(dy) => sums[forward] += x * f64::from(dy[output]),
                        }
                    }
                }
            }
        }
        sums
    }

    /// Asserts equality up to an error relative to the largest; non-finite values must agree.
    fn assert_close(what: &str, found: &[f32], expected: &[f64]) {
        let largest = expected.iter().filter(|x| x.is_finite());
        let largest = largest.fold(1.0, |a: f64, b| a.max(b.abs()));
        for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
            let found = f64::from(*found);
            let same = match expected.is_finite() {
                true => (found - expected).abs() < 4e-6 * largest,
                false => found.is_nan() == expected.is_nan() && !found.is_finite(),
            };
            assert!(same, "{what}, {i}: {found} for {expected}");
        }
    }

    fn check<const M: usize, const R: usize>(tiling: Tiling, special: Option<f32>) {
        let scratch = crate::library::Scratch::default();
        let pool = Pool::new(2);
        let ctx = ExecContext {
            cpu: Cpu::host(),
            pool: &pool,
            scratch: &scratch,
        };
        let (input_size, output_size) = tiling.sizes();
        let mut x = numbers(tiling.images * input_size);
        let filters = numbers(R * R * tiling.from * tiling.to);
        if let Some(special) = special {
            let middle = x.len() / 2;
            x[middle] = special;
        }
        for flipped in [false, true] {
            let mut y = vec![0.0; tiling.images * output_size];
            convolve::<M, R>(ctx, tiling, &x, (&filters, flipped), &mut y);
            let expected = direct::<R>(&tiling, &x, Ok((&filters, flipped)));
            assert_close(&format!("{tiling:?} {R} {flipped}"), &y, &expected);
        }
        let (dy, mut df) = (
            numbers(tiling.images * output_size),
            vec![0.0; filters.len()],
        );
        filter_gradient::<M, R>(ctx, tiling, &x, &dy, &mut df);
        if special.is_none() {
            let expected = direct::<R>(&tiling, &x, Err(&dy));
            assert_close(&format!("{tiling:?} {R}"), &df, &expected);
        }
    }

    #[test]
    fn winograd_equals_direct_convolution() {
        if !Cpu::host().has_avx2_fma() {
            println!("skipped: needs AVX2 (Winograd)");
            return;
        }
        for (images, input, pad_before, size) in [
            (2, [9, 7], [1, 1], 3),
            (1, [4, 17], [0, 2], 3),
            (3, [6, 6], [2, 0], 5),
            (1, [12, 5], [4, 2], 5),
        ] {
            let tiling = Tiling {
                images,
                input,
                output: [0, 1].map(|i| input[i] + 2 * pad_before[i] + 1 - size),
                pad_before,
                from: 32,
                to: 16,
            };
            for special in [None, Some(f32::NAN), Some(f32::INFINITY), Some(3e38)] {
                match size {
                    3 => check::<4, 3>(tiling, special),
                    _ => check::<2, 5>(tiling, special),
                }
            }
        }
    }

    #[test]
    fn transforms_are_bit_equal_for_all_vector_widths() {
        if !Cpu::host().has_avx2_fma() {
            println!("skipped: needs AVX2 (Winograd)");
            return;
        }
        if !Cpu::host().has_avx512() {
            println!("skipped: needs AVX-512");
        }
        let tiling = Tiling {
            images: 1,
            input: [9, 7],
            output: [9, 7],
            pad_before: [1, 1],
            from: 32,
            to: 32,
        };
        let (x, products) = (numbers(9 * 7 * 32), numbers(TILE_POINTS * 6 * 32));
        let mut read = [
            vec![0.0; TILE_POINTS * 6 * 32],
            vec![0.0; TILE_POINTS * 6 * 32],
        ];
        let mut written = [vec![0.0; 9 * 7 * 32], vec![0.0; 9 * 7 * 32]];
        for (i, (read, written)) in read.iter_mut().zip(&mut written).enumerate() {
            let tile = OutputTile::<4> {
                tiling: &tiling,
                row: 2,
                column: 1,
                first: 0,
            };
            let work = TransformInputs::<4> {
                tiling: &tiling,
                x: &x,
                own: 0..6,
                row: 0,
                to: read,
                point_stride: 6 * 32,
            };
            let write = TransformOutputs::<4> {
                tile: &tile,
                products: &products,
                point_stride: 6 * 32,
                y: written,
            };
            match i {
                0 => {
                    dispatch_fma(Cpu::host(), work);
                    assert!(dispatch_fma(Cpu::host(), write));
                }
                _ => {
                    dispatch_fma_256(Cpu::host(), work);
                    assert!(dispatch_fma_256(Cpu::host(), write));
                }
            }
        }
        assert_eq!(read[0], read[1]);
        assert_eq!(written[0], written[1]);
    }
}
