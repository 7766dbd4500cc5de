//! Orthonormal columns (or rows, where there are fewer of them) of a matrix by Householder QR.

use trainspec_ir::interp::EvalError;

use super::elements::{Elem, floats};
use super::{Routine, y};

/// Q of the Householder QR decomposition in f64, with a nonnegative diagonal of R.
pub(super) fn orthogonalize(r: &mut Routine<'_>) -> Result<(), EvalError> {
    r.check();
    let &[rows, columns] = &r.types[0].shape[..] else {
        panic!("one matrix is made orthogonal");
    };
    let wide = columns > rows;
    let (m, n) = if wide {
        (columns, rows)
    } else {
        (rows, columns)
    };
    // Column-major: R, the reflections, Q, and the signs.
    r.scratch.f64s.with(3 * m * n + n, |buffer| {
        let (matrix, rest) = buffer.split_at_mut(m * n);
        let (reflections, rest) = rest.split_at_mut(m * n);
        let (q, signs) = rest.split_at_mut(m * n);
        let index = |i: usize, k: usize| if wide { k * m + i } else { i * n + k };
        floats!(r.types[0].dtype, T => {
            let x = T::of(&r.operands[0]).expect("the operand has its type");
            for k in 0..n {
                for i in 0..m {
                    matrix[k * m + i] = x[index(i, k)].to_f64();
                }
            }
            orthogonal(m, n, matrix, reflections, q, signs);
            let y = y::<T>(&mut r.outputs[0]);
            for k in 0..n {
                for i in 0..m {
                    y[index(i, k)] = T::rounded(q[k * m + i]);
                }
            }
        });
    });
    Ok(())
}

fn orthogonal(
    m: usize,
    n: usize,
    r: &mut [f64],
    reflections: &mut [f64],
    q: &mut [f64],
    signs: &mut [f64],
) {
    for k in 0..n {
        // The reflection takes the rest of the column to ∓|column| e₁, away from its first element.
        let v = &mut reflections[k * m..][..m - k];
        v.copy_from_slice(&r[k * m + k..][..m - k]);
        let length = v.iter().fold(0.0_f64, |length, x| libm::hypot(length, *x));
        let end = if v[0] > 0.0 { -length } else { length };
        v[0] -= end;
        let size = v.iter().fold(0.0_f64, |size, x| libm::hypot(size, *x));
        if size > 0.0 || size.is_nan() {
            v.iter_mut().for_each(|x| *x /= size);
        }
        reflect(v, k, m, r);
        signs[k] = if end < 0.0 { -1.0 } else { 1.0 };
    }
    q.fill(0.0);
    for k in 0..n {
        q[k * m + k] = 1.0;
    }
    for k in (0..n).rev() {
        reflect(&reflections[k * m..][..m - k], k, m, q);
    }
    for (k, sign) in signs.iter().enumerate() {
        q[k * m..][..m].iter_mut().for_each(|x| *x *= sign);
    }
}

/// Takes each column, from row `k` on, to itself minus 2 (v · column) v.
fn reflect(v: &[f64], k: usize, m: usize, matrix: &mut [f64]) {
    for column in matrix.chunks_exact_mut(m.max(1)) {
        let column = &mut column[k..];
        let dot = v.iter().zip(&*column).fold(0.0, |dot, (v, x)| dot + v * x);
        for (x, v) in column.iter_mut().zip(v) {
            *x -= 2.0 * dot * v;
        }
    }
}
