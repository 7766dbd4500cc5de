//! 2-D convolution and its gradients (NHWC, HWIO filters): algorithm selection.
//!
//! Pointwise (1 x 1) convolutions are GEMMs. Filters of 3 x 3 and 5 x 5 with many channels use Winograd (`winograd`), where its
//! cost model predicts a gain; other convolutions with enough output channels are implicit GEMMs ([`implicit_gemm`]). The rest, as
//! depthwise convolutions, are direct ([`direct`]).

mod direct;
mod implicit_gemm;
#[cfg(target_arch = "x86_64")]
mod winograd;

use trainspec_ir::interp::EvalError;
use trainspec_ir::window::WindowAxis;

use super::elements::{Real, floats};
use super::gather_scatter::with_accumulators;
use super::matmul::with_widened;
use super::scratch::Scratch;
use super::{Routine, y};
use crate::cpu::Cpu;
use crate::exec::gemm::{Matrix, Product, multiply_on};
use crate::exec::pool::Pool;

/// A 2-D convolution.
#[derive(Debug)]
struct Convolution {
    /// The shape of the input: batch, height, width, channels.
    x: [usize; 4],
    /// The shape of the filters: height, width, input channels of a group, output channels.
    filters: [usize; 4],
    groups: usize,
    down: WindowAxis,
    right: WindowAxis,
}

/// CPU features, threads and scratch memory of a convolution.
#[derive(Clone, Copy)]
struct ExecContext<'a> {
    cpu: Cpu,
    pool: &'a Pool,
    scratch: &'a Scratch,
}

/// The least output channels of a group for an implicit GEMM.
const MIN_GEMM_CHANNELS: usize = 3;

impl Convolution {
    fn new(r: &Routine<'_>, x: &[usize], filters: &[usize]) -> Convolution {
        let four = "images and filters have 4 dimensions";
        let x: [usize; 4] = x.try_into().expect(four);
        let filters: [usize; 4] = filters.try_into().expect(four);
        let (strides, pads, dilations) =
            (r.sizes("strides"), r.pairs("pads"), r.sizes("dilations"));
        let along = |i: usize| {
            WindowAxis::new(x[1 + i], filters[i], strides[i], pads[i], dilations[i])
                .expect("type inference has seen the window")
        };
        Convolution {
            x,
            filters,
            groups: r.size("groups"),
            down: along(0),
            right: along(1),
        }
    }

    /// Output pixels of an image.
    fn output_pixels(&self) -> usize {
        self.down.outputs * self.right.outputs
    }

    /// Elements of one image of the input, and of the output.
    fn sizes(&self) -> (usize, usize) {
        let [_, h, w, c] = self.x;
        (h * w * c, self.output_pixels() * self.filters[3])
    }

    /// Input and output channels of one group.
    fn channels(&self) -> (usize, usize) {
        (self.filters[2], self.filters[3] / self.groups)
    }

    /// Elements of a window in one group: the depth of the GEMM.
    fn window(&self) -> usize {
        let [kh, kw, c_in, _] = self.filters;
        kh * kw * c_in
    }

    /// Whether it is a pointwise (1 x 1) convolution: a GEMM of the input as it is.
    fn is_pointwise(&self) -> bool {
        let as_is = |a: &WindowAxis| a.kernel == 1 && a.stride == 1 && a.input == a.outputs;
        self.groups == 1 && as_is(&self.down) && as_is(&self.right)
    }

    /// Whether an implicit GEMM has enough output channels.
    fn suits_implicit_gemm(&self) -> bool {
        self.channels().1 >= MIN_GEMM_CHANNELS
    }

    /// Whether explicit zero padding gives the same result: no window overlaps padding, or all other factors are finite.
    fn padding_is_neutral<T: Real>(&self, factors: &[T]) -> bool {
        let inside = |a: &WindowAxis| {
            let ends = [0, a.outputs.saturating_sub(1)];
            ends.iter()
                .all(|output| a.valid_taps(*output).len() == a.kernel)
        };
        let zero = |x: &T| *x * T::ZERO == T::ZERO;
        let zeros = |xs: &[T]| xs.iter().fold(true, |all, x| all & zero(x));
        (inside(&self.down) && inside(&self.right)) || factors.chunks(64).all(zeros)
    }

    /// Whether all filters are finite, so that their products with zero padding are 0.
    fn filters_are_finite<T: Real>(&self, filters: &[T]) -> bool {
        let zeros = |xs: &[T]| {
            xs.iter()
                .fold(true, |all, x| all & (*x * T::ZERO == T::ZERO))
        };
        filters.chunks(64).all(zeros)
    }

    /// Visits the window of an output pixel: the offset of an input pixel's channels, and its tap.
    fn visit_window(&self, output: usize, mut visit: impl FnMut(usize, usize)) {
        let [_, _, w, c] = self.x;
        let (row, column) = (output / self.right.outputs, output % self.right.outputs);
        for i in self.down.valid_taps(row) {
            let at = self.down.input_index(row, i) * w;
            for j in self.right.valid_taps(column) {
                let element = at + self.right.input_index(column, j);
                visit(element * c, i * self.right.kernel + j);
            }
        }
    }

    /// Computes it by Winograd where that is supported and profitable; returns whether it did.
    fn try_winograd<T: Real>(
        &self,
        op: ConvOp,
        ctx: ExecContext<'_>,
        [a, b]: [&[T]; 2],
        y: &mut [T],
    ) -> bool {
        // Winograd loses accuracy, so f64 never uses it.
        let singles = (T::as_f32(a), T::as_f32(b), T::as_f32_mut(y));
        let (Some(a), Some(b), Some(y)) = singles else {
            return false;
        };
        #[cfg(target_arch = "x86_64")]
        return match op {
            ConvOp::Forward => self.forward_winograd(ctx, a, b, y),
            ConvOp::InputGrad => self.input_grad_winograd(ctx, a, b, y),
            ConvOp::FilterGrad => self.filter_grad_winograd(ctx, a, b, y),
        };
        #[cfg(not(target_arch = "x86_64"))]
        {
            let _ = (op, ctx, a, b, y);
            false
        }
    }

    fn forward<T: Real>(&self, ctx: ExecContext<'_>, x: &[T], filters: &[T], y: &mut [T]) {
        if self.is_pointwise() {
            let (p, [_, _, i, o]) = (self.x[0] * self.output_pixels(), self.filters);
            multiply_on(
                ctx.cpu,
                ctx.pool,
                T::buffers(ctx.scratch),
                row_major_output(y, o),
                row_major(x, p, i),
                row_major(filters, i, o),
                None,
            );
        } else if self.try_winograd(ConvOp::Forward, ctx, [x, filters], y) {
            // Done.
        } else if self.suits_implicit_gemm() && self.padding_is_neutral(filters) {
            self.forward_implicit_gemm(ctx, x, filters, y);
        } else {
            self.forward_direct(ctx, x, filters, y);
        }
    }

    fn input_grad<T: Real>(&self, ctx: ExecContext<'_>, dy: &[T], filters: &[T], dx: &mut [T]) {
        if self.is_pointwise() {
            let (p, [_, _, i, o]) = (self.x[0] * self.output_pixels(), self.filters);
            let transposed = row_major(filters, i, o).transposed();
            let buffers = T::buffers(ctx.scratch);
            multiply_on(
                ctx.cpu,
                ctx.pool,
                buffers,
                row_major_output(dx, i),
                row_major(dy, p, o),
                transposed,
                None,
            );
        } else if self.try_winograd(ConvOp::InputGrad, ctx, [dy, filters], dx) {
            // Done.
        } else if self.channels().0 >= MIN_GEMM_CHANNELS
            && self.input_grad_suits_implicit_gemm()
            && self.filters_are_finite(filters)
        {
            self.input_grad_implicit_gemm(ctx, dy, filters, dx);
        } else {
            self.input_grad_direct(ctx, dy, filters, dx);
        }
    }

    fn filter_grad<T: Real>(&self, ctx: ExecContext<'_>, x: &[T], dy: &[T], df: &mut [T]) {
        if self.is_pointwise() {
            let (p, [_, _, i, o]) = (self.x[0] * self.output_pixels(), self.filters);
            multiply_on(
                ctx.cpu,
                ctx.pool,
                T::buffers(ctx.scratch),
                row_major_output(df, o),
                row_major(x, p, i).transposed(),
                row_major(dy, p, o),
                None,
            );
        } else if !self.try_winograd(ConvOp::FilterGrad, ctx, [x, dy], df) {
            self.filter_grad_split(ctx, x, dy, df);
        }
    }
}

/// A dense row-major matrix.
fn row_major<T>(data: &[T], rows: usize, columns: usize) -> Matrix<'_, T> {
    Matrix {
        data,
        size: (rows, columns),
        strides: (columns, 1),
    }
}

/// A dense row-major output.
fn row_major_output<T>(data: &mut [T], columns: usize) -> Product<'_, T> {
    Product {
        data,
        row_stride: columns,
        accumulate: false,
    }
}

/// Convolution (tf.nn.conv2d, a cross-correlation).
pub(super) fn conv2d(r: &mut Routine<'_>) -> Result<(), EvalError> {
    let shapes = [&r.types[0].shape, &r.types[1].shape];
    run(r, shapes, ConvOp::Forward)
}

/// The gradient of the input (transposed convolution).
pub(super) fn conv2d_input_grad(r: &mut Routine<'_>) -> Result<(), EvalError> {
    let shapes = [&r.results[0].shape, &r.types[1].shape];
    run(r, shapes, ConvOp::InputGrad)
}

/// The gradient of the filters.
pub(super) fn conv2d_filter_grad(r: &mut Routine<'_>) -> Result<(), EvalError> {
    let shapes = [&r.types[0].shape, &r.results[0].shape];
    run(r, shapes, ConvOp::FilterGrad)
}

/// A convolution or one of its gradients.
#[derive(Clone, Copy)]
enum ConvOp {
    Forward,
    InputGrad,
    FilterGrad,
}

fn run(r: &mut Routine<'_>, [x, f]: [&Vec<usize>; 2], op: ConvOp) -> Result<(), EvalError> {
    r.check();
    let convolution = Convolution::new(r, x, f);
    let ctx = ExecContext {
        cpu: r.cpu,
        pool: r.pool,
        scratch: r.scratch,
    };
    floats!(r.types[0].dtype, T => {
        let [a, b] = [0, 1].map(|i| {
            use super::elements::Elem;
            T::of(&r.operands[i]).expect("the operands have one type")
        });
        with_accumulators(ctx.scratch, y::<T>(&mut r.outputs[0]), |y| {
            with_widened(ctx.scratch, a, |a| with_widened(ctx.scratch, b, |b| match op {
                ConvOp::Forward => convolution.forward(ctx, a, b, y),
                ConvOp::InputGrad => convolution.input_grad(ctx, a, b, y),
                ConvOp::FilterGrad => convolution.filter_grad(ctx, a, b, y),
            }));
        });
    });
    Ok(())
}
