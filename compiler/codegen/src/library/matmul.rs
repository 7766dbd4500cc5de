//! Products of matrices.

use std::ops::Range;

use trainspec_ir::DType;
use trainspec_ir::interp::EvalError;

use super::elements::{Float, Int, Real, floats, ints};
use super::rows::with_sums;
use super::scratch::{Kept, Scratch};
use super::{GRAIN, Routine, y};
use crate::exec::gemm::{self, Epilogue, Matrix, Product, multiply, multiply_on};
use crate::exec::parallel;
use crate::exec::pool::Pool;

/// The product of each pair of matrices.
pub(super) fn matmul(r: &mut Routine<'_>) -> Result<(), EvalError> {
    matmul_then(r, None)
}

/// The same with something that is done with finished rows, each of which is named once. Rows are counted over all matrices: row `i` of
/// matrix `j` is `j * m + i`.
pub fn matmul_then(r: &mut Routine<'_>, epilogue: Option<Epilogue<'_>>) -> Result<(), EvalError> {
    r.check();
    let shape = Shape::new(r);
    let dtype = r.types[0].dtype;
    // What is rounded at the end is finished at the end.
    let late = match dtype {
        DType::F32 | DType::F64 => None,
        _ => epilogue,
    };
    let epilogue = epilogue.filter(|_| late.is_none());
    match dtype.is_float() {
        true => floats!(dtype, T => {
            let (a, b) = (r.x::<T>(0), r.x::<T>(1));
            let (pool, scratch) = (r.pool, &*r.scratch);
            with_sums(scratch, y::<T>(&mut r.outputs[0]), |y| {
                with_terms(scratch, a, |a| {
                    with_terms(scratch, b, |b| shape.floats(pool, scratch, [a, b], y, epilogue));
                });
            });
        }),
        false => ints!(dtype, T => shape.ints::<T>(r)),
    }
    if let Some(late) = late.filter(|_| shape.batch * shape.m > 0) {
        late(0..shape.batch * shape.m);
    }
    Ok(())
}

/// Hands floats to `work` in the type that sums are made in.
pub(super) fn with_terms<T: Float, R>(
    scratch: &Scratch,
    x: &[T],
    work: impl FnOnce(&[T::Sum]) -> R,
) -> R {
    if let Some(terms) = T::as_terms(x) {
        return work(terms);
    }
    T::Sum::shelf(scratch).lend(x.len(), |terms| {
        for (term, x) in terms.iter_mut().zip(x) {
            *term = x.widen();
        }
        work(terms)
    })
}

/// A product whose rows of `n` elements lie one after another.
fn rows<T>(data: &mut [T], n: usize) -> Product<'_, T> {
    Product {
        data,
        row_stride: n,
        accumulate: false,
    }
}

/// How large the matrices are, and how far apart their elements.
struct Shape {
    batch: usize,
    m: usize,
    n: usize,
    k: usize,
    a: (usize, usize),
    b: (usize, usize),
}

impl Shape {
    fn new(r: &Routine<'_>) -> Shape {
        let [batch @ .., m, n] = &r.results[0].shape[..] else {
            panic!("a matrix has two dimensions");
        };
        let (left, turn_a) = (&r.types[0].shape, r.flag("transpose_a"));
        let k = left[left.len() - if turn_a { 2 } else { 1 }];
        let steps = |turned: bool, rows: usize, columns: usize| match turned {
            false => (columns, 1),
            true => (1, rows),
        };
        Shape {
            batch: batch.iter().product(),
            m: *m,
            n: *n,
            k,
            a: steps(turn_a, *m, k),
            b: steps(r.flag("transpose_b"), k, *n),
        }
    }

    fn floats<T: Real>(
        &self,
        pool: &Pool,
        scratch: &Scratch,
        [a, b]: [&[T]; 2],
        y: &mut [T],
        epilogue: Option<Epilogue<'_>>,
    ) {
        let (m, n, k) = (self.m, self.n, self.k);
        let room = T::shelf(scratch);
        let left = |i: usize| Matrix {
            data: &a[i * m * k..][..m * k],
            size: (m, k),
            strides: self.a,
        };
        let right = |i: usize| Matrix {
            data: &b[i * k * n..][..k * n],
            size: (k, n),
            strides: self.b,
        };
        if y.is_empty() {
            if let Some(epilogue) = epilogue.filter(|_| self.batch * m > 0) {
                epilogue(0..self.batch * m);
            }
            return;
        }
        let work = m.saturating_mul(n).saturating_mul(k);
        if self.batch == 1 || work > MANY {
            for (i, y) in y.chunks_exact_mut(m * n).enumerate() {
                let moved = |rows: Range<usize>| {
                    if let Some(epilogue) = epilogue {
                        epilogue(i * m + rows.start..i * m + rows.end);
                    }
                };
                let epilogue: Option<Epilogue<'_>> = match epilogue {
                    Some(_) => Some(&moved),
                    None => None,
                };
                multiply_on(pool, room, rows(y, n), left(i), right(i), epilogue);
            }
            return;
        }
        // Several matrices to a task, as many as are some work.
        let some = (SOME / work.max(1)).clamp(1, self.batch.div_ceil(8));
        room.prepare(pool.threads(), gemm::workspace_len(&left(0), &right(0)));
        parallel::chunks_mut(pool, y, some * m * n, |i, part| {
            for (j, y) in part.chunks_exact_mut(m * n).enumerate() {
                let matrix = i * some + j;
                multiply(room, rows(y, n), left(matrix), right(matrix));
                if let Some(epilogue) = epilogue {
                    epilogue(matrix * m..(matrix + 1) * m);
                }
            }
        });
    }

    fn ints<T: Int>(&self, r: &mut Routine<'_>) {
        let (a, b) = (r.x::<T>(0), r.x::<T>(1));
        let (m, n, k) = (self.m, self.n, self.k);
        let some = (GRAIN / (n * k).max(1)).max(1);
        parallel::chunks_mut(r.pool, y::<T>(&mut r.outputs[0]), some * n, |i, part| {
            for (j, row) in part.chunks_exact_mut(n).enumerate() {
                let (matrix, row_number) = ((i * some + j) / m, (i * some + j) % m);
                let (a, b) = (&a[matrix * m * k..], &b[matrix * k * n..]);
                row.fill(T::default());
                for l in 0..k {
                    let x = a[row_number * self.a.0 + l * self.a.1].to_i64();
                    for (j, sum) in row.iter_mut().enumerate() {
                        let y = b[l * self.b.0 + j * self.b.1].to_i64();
                        *sum = T::from_i64(sum.to_i64().wrapping_add(x.wrapping_mul(y)));
                    }
                }
            }
        });
    }
}

/// Products of numbers that are enough for more than one task, and for one.
const MANY: usize = 1 << 20;
const SOME: usize = 1 << 18;
