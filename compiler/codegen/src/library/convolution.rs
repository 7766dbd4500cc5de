//! Convolutions and their gradients.
//!
//! Images are batch, height, width, channels; filters are height, width, channels in, channels out. Where there are enough
//! channels out, places by channels are computed tile by tile as a product of matrices is ([`swept`]); windows of 3 x 3 and 5 x 5 over
//! many channels with fewer products (`winograd`). Other convolutions are summed as they are ([`direct`]).

mod direct;
mod swept;
#[cfg(target_arch = "x86_64")]
mod winograd;

use trainspec_ir::interp::EvalError;

use super::elements::{Real, floats};
use super::matmul::with_terms;
use super::rows::with_sums;
use super::scratch::Scratch;
use super::windows::Along;
use super::{Routine, y};
use crate::exec::gemm::{Matrix, Product, multiply_on};
use crate::exec::pool::Pool;

/// A convolution of images with filters.
#[derive(Debug)]
struct Convolution {
    /// The shape of the images.
    x: [usize; 4],
    /// The shape of the filters.
    filters: [usize; 4],
    groups: usize,
    down: Along,
    right: Along,
}

/// What a convolution is computed with.
#[derive(Clone, Copy)]
struct Means<'a> {
    pool: &'a Pool,
    scratch: &'a Scratch,
}

/// How many channels that a product makes are worth its while.
const ENOUGH: usize = 3;

impl Convolution {
    fn new(r: &Routine<'_>, x: &[usize], filters: &[usize], y: &[usize]) -> Convolution {
        let four = "images and filters have 4 dimensions";
        let x: [usize; 4] = x.try_into().expect(four);
        let filters: [usize; 4] = filters.try_into().expect(four);
        let (strides, pads, dilations) =
            (r.sizes("strides"), r.pairs("pads"), r.sizes("dilations"));
        let along = |i: usize| Along {
            input: x[1 + i],
            kernel: filters[i],
            stride: strides[i],
            before: pads[i].0,
            dilation: dilations[i],
            places: y[1 + i],
        };
        Convolution {
            x,
            filters,
            groups: r.size("groups"),
            down: along(0),
            right: along(1),
        }
    }

    /// How many places the window has in an image.
    fn places(&self) -> usize {
        self.down.places * self.right.places
    }

    /// Elements of one image before the convolution, and after it.
    fn sizes(&self) -> (usize, usize) {
        let [_, h, w, c] = self.x;
        (h * w * c, self.places() * self.filters[3])
    }

    /// Channels in and out of one group.
    fn channels(&self) -> (usize, usize) {
        (self.filters[2], self.filters[3] / self.groups)
    }

    /// How many elements of a group lie under a place.
    fn window(&self) -> usize {
        let [kh, kw, c_in, _] = self.filters;
        kh * kw * c_in
    }

    /// Whether the rows of the matrix are the pixels as they are.
    fn is_product(&self) -> bool {
        let as_is = |a: &Along| a.kernel == 1 && a.stride == 1 && a.input == a.places;
        self.groups == 1 && as_is(&self.down) && as_is(&self.right)
    }

    fn is_swept(&self) -> bool {
        self.channels().1 >= ENOUGH
    }

    /// Whether the products with what is beside the image, where the matrix has zeros, are 0, the other factors being these.
    fn margin_is_zero<T: Real>(&self, factors: &[T]) -> bool {
        let inside = |a: &Along| {
            let ends = [0, a.places.saturating_sub(1)];
            ends.iter().all(|place| a.covered(*place).len() == a.kernel)
        };
        let zero = |x: &T| *x * T::ZERO == T::ZERO;
        let zeros = |xs: &[T]| xs.iter().fold(true, |all, x| all & zero(x));
        (inside(&self.down) && inside(&self.right)) || factors.chunks(64).all(zeros)
    }

    /// Whether the products of filters with zeros beside what flows back are 0.
    fn flows_stay_zero<T: Real>(&self, filters: &[T]) -> bool {
        let zeros = |xs: &[T]| {
            xs.iter()
                .fold(true, |all, x| all & (*x * T::ZERO == T::ZERO))
        };
        filters.chunks(64).all(zeros)
    }

    /// Visits what lies under a place: where its channels begin in an image, and which element of the window that is.
    fn under(&self, place: usize, mut visit: impl FnMut(usize, usize)) {
        let [_, _, w, c] = self.x;
        let (row, column) = (place / self.right.places, place % self.right.places);
        for i in self.down.covered(row) {
            let at = self.down.element(row, i) * w;
            for j in self.right.covered(column) {
                let element = at + self.right.element(column, j);
                visit(element * c, i * self.right.kernel + j);
            }
        }
    }

    /// Computes it with fewer products, where that is possible and worth its while; whether it did.
    fn by_tiles<T: Real>(
        &self,
        work: Work,
        means: Means<'_>,
        [a, b]: [&[T]; 2],
        y: &mut [T],
    ) -> bool {
        // What is computed in f64 is meant to be exact.
        let singles = (T::singles(a), T::singles(b), T::singles_mut(y));
        let (Some(a), Some(b), Some(y)) = singles else {
            return false;
        };
        #[cfg(target_arch = "x86_64")]
        return match work {
            Work::Forward => self.forward_tiled(means, a, b, y),
            Work::Input => self.input_grad_tiled(means, a, b, y),
            Work::Filters => self.filter_grad_tiled(means, a, b, y),
        };
        #[cfg(not(target_arch = "x86_64"))]
        {
            let _ = (work, means, a, b, y);
            false
        }
    }

    fn forward<T: Real>(&self, means: Means<'_>, x: &[T], filters: &[T], y: &mut [T]) {
        if self.is_product() {
            let (p, [_, _, i, o]) = (self.x[0] * self.places(), self.filters);
            multiply_on(
                means.pool,
                T::shelf(means.scratch),
                whole(y, o),
                plain(x, p, i),
                plain(filters, i, o),
                None,
            );
        } else if self.by_tiles(Work::Forward, means, [x, filters], y) {
            // Done.
        } else if self.is_swept() && self.margin_is_zero(filters) {
            self.forward_swept(means, x, filters, y);
        } else {
            self.forward_direct(means, x, filters, y);
        }
    }

    fn input_grad<T: Real>(&self, means: Means<'_>, dy: &[T], filters: &[T], dx: &mut [T]) {
        if self.is_product() {
            let (p, [_, _, i, o]) = (self.x[0] * self.places(), self.filters);
            let turned = plain(filters, i, o).transposed();
            let shelf = T::shelf(means.scratch);
            multiply_on(
                means.pool,
                shelf,
                whole(dx, i),
                plain(dy, p, o),
                turned,
                None,
            );
        } else if self.by_tiles(Work::Input, means, [dy, filters], dx) {
            // Done.
        } else if self.channels().0 >= ENOUGH && self.sweeps_back() && self.flows_stay_zero(filters)
        {
            self.input_grad_swept(means, dy, filters, dx);
        } else {
            self.input_grad_direct(means, dy, filters, dx);
        }
    }

    fn filter_grad<T: Real>(&self, means: Means<'_>, x: &[T], dy: &[T], df: &mut [T]) {
        if self.is_product() {
            let (p, [_, _, i, o]) = (self.x[0] * self.places(), self.filters);
            multiply_on(
                means.pool,
                T::shelf(means.scratch),
                whole(df, o),
                plain(x, p, i).transposed(),
                plain(dy, p, o),
                None,
            );
        } else if !self.by_tiles(Work::Filters, means, [x, dy], df) {
            self.filter_grad_in_pieces(means, x, dy, df);
        }
    }
}

/// A matrix whose rows lie one after another.
fn plain<T>(data: &[T], rows: usize, columns: usize) -> Matrix<'_, T> {
    Matrix {
        data,
        size: (rows, columns),
        strides: (columns, 1),
    }
}

/// A product whose rows lie one after another.
fn whole<T>(data: &mut [T], columns: usize) -> Product<'_, T> {
    Product {
        data,
        row_stride: columns,
        accumulate: false,
    }
}

/// Σ x · filters under each place of the window.
pub(super) fn conv2d(r: &mut Routine<'_>) -> Result<(), EvalError> {
    let shapes = [&r.types[0].shape, &r.types[1].shape, &r.results[0].shape];
    run(r, shapes, Work::Forward)
}

/// What flows back to the images.
pub(super) fn conv2d_input_grad(r: &mut Routine<'_>) -> Result<(), EvalError> {
    let shapes = [&r.results[0].shape, &r.types[1].shape, &r.types[0].shape];
    run(r, shapes, Work::Input)
}

/// What flows back to the filters.
pub(super) fn conv2d_filter_grad(r: &mut Routine<'_>) -> Result<(), EvalError> {
    let shapes = [&r.types[0].shape, &r.results[0].shape, &r.types[1].shape];
    run(r, shapes, Work::Filters)
}

#[derive(Clone, Copy)]
enum Work {
    Forward,
    Input,
    Filters,
}

fn run(r: &mut Routine<'_>, [x, f, o]: [&Vec<usize>; 3], work: Work) -> Result<(), EvalError> {
    r.check();
    let convolution = Convolution::new(r, x, f, o);
    let means = Means {
        pool: r.pool,
        scratch: r.scratch,
    };
    floats!(r.types[0].dtype, T => {
        let [a, b] = [0, 1].map(|i| {
            use super::elements::Elem;
            T::of(&r.operands[i]).expect("the operands have one type")
        });
        with_sums(means.scratch, y::<T>(&mut r.outputs[0]), |y| {
            with_terms(means.scratch, a, |a| with_terms(means.scratch, b, |b| match work {
                Work::Forward => convolution.forward(means, a, b, y),
                Work::Input => convolution.input_grad(means, a, b, y),
                Work::Filters => convolution.filter_grad(means, a, b, y),
            }));
        });
    });
    Ok(())
}
