//! Batched matrix multiplication (matmul) with transposes and a fused epilogue.

use std::ops::Range;

use trainspec_ir::DType;
use trainspec_ir::interp::EvalError;

use super::elements::{Float, Int, Real, floats, ints};
use super::gather_scatter::with_accumulators;
use super::scratch::{Pooled, Scratch};
use super::{GRAIN, Routine, y};
use crate::cpu::Cpu;
use crate::exec::gemm::{self, Epilogue, Matrix, Product, multiply, multiply_on};
use crate::exec::parallel;
use crate::exec::pool::Pool;

/// Matmul of each pair of matrices.
pub(super) fn matmul(r: &mut Routine<'_>) -> Result<(), EvalError> {
    matmul_with_epilogue(r, None)
}

/// Matmul with a fused epilogue, called once for every finished row. Rows are counted over all matrices: row `i` of
/// matrix `j` is `j * m + i`.
pub fn matmul_with_epilogue(
    r: &mut Routine<'_>,
    epilogue: Option<Epilogue<'_>>,
) -> Result<(), EvalError> {
    r.check();
    let shape = Shape::new(r);
    let dtype = r.types[0].dtype;
    // Results that are rounded at the end have their epilogue after that.
    let late = match dtype {
        DType::F32 | DType::F64 => None,
        _ => epilogue,
    };
    let epilogue = epilogue.filter(|_| late.is_none());
    match dtype.is_float() {
        true => floats!(dtype, T => {
            let (a, b) = (r.x::<T>(0), r.x::<T>(1));
            let ctx @ (_, _, scratch) = (r.cpu, r.pool, &*r.scratch);
            with_accumulators(scratch, y::<T>(&mut r.outputs[0]), |y| {
                with_widened(scratch, a, |a| {
                    with_widened(scratch, b, |b| shape.floats(ctx, [a, b], y, epilogue));
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

/// Calls `work` with floats widened to the accumulator type.
pub(super) fn with_widened<T: Float, R>(
    scratch: &Scratch,
    x: &[T],
    work: impl FnOnce(&[T::Acc]) -> R,
) -> R {
    if let Some(terms) = T::as_terms(x) {
        return work(terms);
    }
    T::Acc::buffers(scratch).with(x.len(), |terms| {
        for (term, x) in terms.iter_mut().zip(x) {
            *term = x.widen();
        }
        work(terms)
    })
}

/// A dense output with rows of `n` elements.
fn dense_rows<T>(data: &mut [T], n: usize) -> Product<'_, T> {
    Product {
        data,
        row_stride: n,
        accumulate: false,
    }
}

/// Sizes and strides of the matrices.
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
        let (left, transpose_a) = (&r.types[0].shape, r.flag("transpose_a"));
        let k = left[left.len() - if transpose_a { 2 } else { 1 }];
        let strides = |transposed: bool, rows: usize, columns: usize| match transposed {
            false => (columns, 1),
            true => (1, rows),
        };
        Shape {
            batch: batch.iter().product(),
            m: *m,
            n: *n,
            k,
            a: strides(transpose_a, *m, k),
            b: strides(r.flag("transpose_b"), k, *n),
        }
    }

    fn floats<T: Real>(
        &self,
        (cpu, pool, scratch): (Cpu, &Pool, &Scratch),
        [a, b]: [&[T]; 2],
        y: &mut [T],
        epilogue: Option<Epilogue<'_>>,
    ) {
        let (m, n, k) = (self.m, self.n, self.k);
        let buffers = T::buffers(scratch);
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
        if self.batch == 1 || work > BATCHED_MAX_MACS {
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
                multiply_on(
                    cpu,
                    pool,
                    buffers,
                    dense_rows(y, n),
                    left(i),
                    right(i),
                    epilogue,
                );
            }
            return;
        }
        // A task takes several matrices, about [`TASK_MACS`] multiply-adds.
        let matrices_per_task = (TASK_MACS / work.max(1)).clamp(1, self.batch.div_ceil(8));
        buffers.prepare(
            pool.threads(),
            gemm::workspace_len(cpu, &left(0), &right(0)),
        );
        parallel::chunks_mut(pool, y, matrices_per_task * m * n, |i, part| {
            for (j, y) in part.chunks_exact_mut(m * n).enumerate() {
                let matrix = i * matrices_per_task + j;
                multiply(cpu, buffers, dense_rows(y, n), left(matrix), right(matrix));
                if let Some(epilogue) = epilogue {
                    epilogue(matrix * m..(matrix + 1) * m);
                }
            }
        });
    }

    fn ints<T: Int>(&self, r: &mut Routine<'_>) {
        let (a, b) = (r.x::<T>(0), r.x::<T>(1));
        let (m, n, k) = (self.m, self.n, self.k);
        let rows_per_task = (GRAIN / (n * k).max(1)).max(1);
        parallel::chunks_mut(
            r.pool,
            y::<T>(&mut r.outputs[0]),
            rows_per_task * n,
            |i, part| {
                for (j, row) in part.chunks_exact_mut(n).enumerate() {
                    let (matrix, row_number) =
                        ((i * rows_per_task + j) / m, (i * rows_per_task + j) % m);
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
            },
        );
    }
}

/// Multiply-adds (MACs) of a matrix above which it is divided into several tasks.
const BATCHED_MAX_MACS: usize = 1 << 20;
/// MACs of a task that takes several matrices.
const TASK_MACS: usize = 1 << 18;
