//! Convolutions as products of matrices.
//!
//! The matrix has a row for each place of the window and a column for each element of the window. It is made for some rows of
//! places at a time, so that it stays in the cache.

use std::ops::Range;

use super::{Convolution, Means};
use crate::exec::gemm::{Matrix, Product, multiply};
use crate::exec::parts;
use crate::library::elements::Real;
use crate::library::reduce::pairwise;

/// The most elements of a matrix that is made at a time.
const MOST: usize = 1 << 16;

/// The most pieces that the gradient of filters is summed in, and the most elements they have together.
const PIECES: usize = 8;
const TOGETHER: usize = 1 << 23;

/// How many elements are copied one by one.
const SHORT: usize = 16;

impl<T> Matrix<'_, T> {
    /// The same with rows and columns swapped.
    pub(super) fn turned(self) -> Self {
        Matrix {
            data: self.data,
            size: (self.size.1, self.size.0),
            steps: (self.steps.1, self.steps.0),
        }
    }
}

impl Convolution {
    /// How many rows of places are done at a time.
    fn rows(&self, most: usize) -> usize {
        let row = (self.right.places * self.window()).max(1);
        let fits = (most / row).clamp(1, self.down.places.max(1));
        // Equal shares.
        let times = self.down.places.div_ceil(fits).max(1);
        self.down.places.div_ceil(times).max(1)
    }

    /// How many elements the matrix has for so many rows of places.
    fn room(&self, rows: usize) -> usize {
        rows * self.right.places * self.window()
    }

    pub(super) fn forward_by_columns<T: Real>(
        &self,
        means: Means<'_>,
        x: &[T],
        filters: &[T],
        y: &mut [T],
    ) {
        let ((image, after), c_out, window) = (self.sizes(), self.filters[3], self.window());
        let (_, each) = self.channels();
        let rows = self.rows(MOST);
        let shelf = T::shelf(means.scratch);
        shelf.prepare(means.pool.threads(), self.room(rows));
        let line = self.right.places * c_out;
        // Pieces do not reach from one image into the next, so they are numbered by hand.
        let pieces = self.down.places.div_ceil(rows);
        let work = |x: &[T], piece: usize, y: &mut [T]| {
            let taken = piece * rows..self.down.places.min((piece + 1) * rows);
            let places = taken.len() * self.right.places;
            shelf.lend(self.room(taken.len()), |columns| {
                for group in 0..self.groups {
                    self.fill(x, group, taken.clone(), columns);
                    multiply(
                        Product {
                            data: &mut y[group * each..],
                            row: c_out,
                            add: false,
                        },
                        super::plain(columns, places, window),
                        self.filters_of(filters, group),
                    );
                }
            });
        };
        if pieces * rows == self.down.places {
            parts::each(means.pool, y, rows * line, |i, y| {
                work(&x[i / pieces * image..][..image], i % pieces, y);
            });
        } else {
            parts::each(means.pool, y, after, |i, y| {
                for (piece, y) in y.chunks_mut(rows * line).enumerate() {
                    work(&x[i * image..][..image], piece, y);
                }
            });
        }
    }

    pub(super) fn input_grad_by_columns<T: Real>(
        &self,
        means: Means<'_>,
        dy: &[T],
        filters: &[T],
        dx: &mut [T],
    ) {
        let ((image, after), c_out, window) = (self.sizes(), self.filters[3], self.window());
        let (_, each) = self.channels();
        let rows = self.rows(MOST);
        let shelf = T::shelf(means.scratch);
        shelf.prepare(means.pool.threads(), self.room(rows));
        let line = self.right.places * c_out;
        parts::each(means.pool, dx, image, |i, dx| {
            dx.fill(T::ZERO);
            let dy = &dy[i * after..][..after];
            shelf.lend(self.room(rows), |columns| {
                for (piece, dy) in dy.chunks((rows * line).max(1)).enumerate() {
                    let first = piece * rows;
                    let taken = first..self.down.places.min(first + rows);
                    let places = taken.len() * self.right.places;
                    let columns = &mut columns[..places * window];
                    for group in 0..self.groups {
                        let flows = Matrix {
                            data: &dy[group * each..],
                            size: (places, each),
                            steps: (c_out, 1),
                        };
                        let turned = self.filters_of(filters, group).turned();
                        multiply(super::whole(columns, window), flows, turned);
                        self.spill(columns, group, taken.clone(), dx);
                    }
                }
            });
        });
    }

    /// The gradient of the filters: pieces of the batch are summed for themselves and then pairwise.
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
        let most = (TOGETHER / size).clamp(1, PIECES);
        let share = images.div_ceil(most).max(1);
        let pieces = images.div_ceil(share).max(1);
        let shelf = T::shelf(means.scratch);
        // One for all pieces, and one for each thread.
        let columns = self.has_columns() && self.margin_is_zero(dy);
        let room = if columns {
            self.room(self.rows(4 * MOST))
        } else {
            0
        };
        shelf.prepare(means.pool.threads() + 1, room);
        shelf.lend(pieces * size, |sums| {
            parts::each(means.pool, sums, size, |i, sums| {
                sums.fill(T::ZERO);
                let own = i * share..images.min((i + 1) * share);
                match columns {
                    true => shelf.lend(room, |columns| {
                        own.for_each(|i| self.add_filter_grad(i, x, dy, columns, sums));
                    }),
                    false => own.for_each(|i| {
                        let (image, after) = self.sizes();
                        let x = &x[i * image..][..image];
                        self.add_filter_grad_direct(x, &dy[i * after..][..after], sums);
                    }),
                }
            });
            parts::each(means.pool, df, crate::library::GRAIN, |i, df| {
                let first = i * crate::library::GRAIN;
                for (j, df) in df.iter_mut().enumerate() {
                    *df = pairwise(pieces, |p| sums[p * size + first + j], |a, b| a + b);
                }
            });
        });
    }

    /// Adds the products of one image to the gradient of the filters.
    fn add_filter_grad<T: Real>(
        &self,
        i: usize,
        x: &[T],
        dy: &[T],
        columns: &mut [T],
        df: &mut [T],
    ) {
        let ((image, after), c_out, window) = (self.sizes(), self.filters[3], self.window());
        let (_, each) = self.channels();
        let (x, dy) = (&x[i * image..][..image], &dy[i * after..][..after]);
        let (rows, line) = (self.rows(4 * MOST), self.right.places * c_out);
        for (piece, dy) in dy.chunks((rows * line).max(1)).enumerate() {
            let first = piece * rows;
            let taken = first..self.down.places.min(first + rows);
            let places = taken.len() * self.right.places;
            let columns = &mut columns[..places * window];
            for group in 0..self.groups {
                self.fill(x, group, taken.clone(), columns);
                let flows = Matrix {
                    data: &dy[group * each..],
                    size: (places, each),
                    steps: (c_out, 1),
                };
                let sums = Product {
                    data: &mut df[self.filter_start(group)..],
                    row: c_out,
                    add: true,
                };
                multiply(sums, super::plain(columns, places, window).turned(), flows);
            }
        }
    }

    fn filter_start(&self, group: usize) -> usize {
        group * self.channels().1
    }

    /// The filters of a group: a row for each element of the window, a column for each channel out.
    fn filters_of<'a, T>(&self, filters: &'a [T], group: usize) -> Matrix<'a, T> {
        Matrix {
            data: &filters[self.filter_start(group)..],
            size: (self.window(), self.channels().1),
            steps: (self.filters[3], 1),
        }
    }

    /// Makes the matrix for some rows of places: what lies under each, and zeros beside the image.
    fn fill<T: Real>(&self, x: &[T], group: usize, rows: Range<usize>, columns: &mut [T]) {
        let window = self.window();
        let mut lines = columns.chunks_exact_mut(window.max(1));
        for row in rows {
            for column in 0..self.right.places {
                let Some(line) = lines.next() else { return };
                self.runs(group, row, column, line.len(), |at, from, length| {
                    let line = &mut line[at..][..length];
                    match from {
                        // A call of a copying function costs more than a few elements.
                        Some(from) if length < SHORT => {
                            for (y, x) in line.iter_mut().zip(&x[from..][..length]) {
                                *y = *x;
                            }
                        }
                        Some(from) => line.copy_from_slice(&x[from..][..length]),
                        None => line.fill(T::ZERO),
                    }
                });
            }
        }
    }

    /// Adds the matrix for some rows of places to what lies under each.
    fn spill<T: Real>(&self, columns: &[T], group: usize, rows: Range<usize>, x: &mut [T]) {
        let mut lines = columns.chunks_exact(self.window().max(1));
        for row in rows {
            for column in 0..self.right.places {
                let Some(line) = lines.next() else { return };
                self.runs(group, row, column, line.len(), |at, from, length| {
                    let Some(from) = from else { return };
                    for (x, add) in x[from..][..length].iter_mut().zip(&line[at..]) {
                        *x += *add;
                    }
                });
            }
        }
    }

    /// Visits a line of the matrix run by run: where the run is in the line, where in the image (`None` beside it), and how
    /// long it is.
    fn runs(
        &self,
        group: usize,
        row: usize,
        column: usize,
        length: usize,
        mut visit: impl FnMut(usize, Option<usize>, usize),
    ) {
        let ([_, _, w, c], (c_in, _)) = (self.x, self.channels());
        let (kw, rows) = (self.right.kernel, self.down.covered(row));
        let columns = self.right.covered(column);
        if rows.is_empty() || columns.is_empty() {
            return visit(0, None, length);
        }
        let step = kw * c_in;
        if rows.start > 0 {
            visit(0, None, rows.start * step);
        }
        for i in rows.clone() {
            let line = self.down.element(row, i) * w;
            let place = |j: usize| (line + self.right.element(column, j)) * c + group * c_in;
            if columns.start > 0 {
                visit(i * step, None, columns.start * c_in);
            }
            if self.right.dilation == 1 && self.groups == 1 {
                let at = i * step + columns.start * c_in;
                visit(at, Some(place(columns.start)), columns.len() * c_in);
            } else {
                for j in columns.clone() {
                    visit(i * step + j * c_in, Some(place(j)), c_in);
                }
            }
            if columns.end < kw {
                visit(
                    i * step + columns.end * c_in,
                    None,
                    (kw - columns.end) * c_in,
                );
            }
        }
        if rows.end * step < length {
            visit(rows.end * step, None, length - rows.end * step);
        }
    }
}
