//! The orthogonal factor Q of `tf.linalg.qr`, by Householder reflections (`tf.keras.initializers.Orthogonal`).

use ndarray::Array2;

use crate::build::Lower;
use crate::graph::{Eval, Gradient, Prim, PrimCall, Type};
use crate::interp::{Array, EvalError, Evaluation};
use crate::ops::op::{Call, Elements, Kind, Op, Param, RuleError};
use crate::ops::rules::primitive::floats;
use crate::ops::rules::{dims, exact_dim, like_x};
use crate::types::{Class, TensorType};

/// Q of the QR decomposition of x (or of its transpose, where it has more columns than rows), signed so that the diagonal of R is positive.
pub(super) static OP: Op = Op {
    name: "orthogonalize",
    aliases: &[],
    doc: "The orthogonal factor of a matrix: its columns made orthonormal, or its rows where there are fewer of them.",
    params: &[Param::required(
        "x",
        Kind::Tensor(Elements::Same("T", Class::Float)),
    )],
    random: false,
    lower: Lower::By(|l| Ok(vec![l.value("x").apply(&PRIM)])),
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    let [m, n] = dims(call, "x")?;
    exact_dim("x", m)?;
    exact_dim("x", n)?;
    like_x(call)
}

/// The primitive. It is for initial values, which have no gradient.
pub(crate) static PRIM: Prim = Prim {
    name: "orthogonalize",
    attrs: &[],
    infer: infer_static,
    gradient: Gradient::None,
    eval: Eval::Tensors(eval),
};

fn infer_static(call: &PrimCall<'_>) -> Result<Vec<Type>, String> {
    let types = floats(call)?;
    match (call.operands, types[0].rank()) {
        ([_], 2) => Ok(types),
        _ => Err("one matrix is made orthogonal".to_owned()),
    }
}

fn eval(e: &Evaluation<'_>) -> Result<Vec<Array>, EvalError> {
    let x = e.x(0).float().view().into_dimensionality();
    let x: ndarray::ArrayView2<'_, f64> = x.expect("the rule asks for two dimensions");
    let wide = x.ncols() > x.nrows();
    let columns = if wide { x.t().to_owned() } else { x.to_owned() };
    let q = orthogonal(columns);
    let q = if wide { q.reversed_axes() } else { q };
    Ok(vec![
        e.floats(q.as_standard_layout().into_owned().into_dyn()),
    ])
}

/// Q of the QR decomposition of a matrix that has at least as many rows as columns, by Householder reflections.
fn orthogonal(mut r: Array2<f64>) -> Array2<f64> {
    let (m, n) = r.dim();
    let mut reflections: Vec<Vec<f64>> = Vec::new();
    let mut signs = Vec::new();
    for k in 0..n {
        // The reflection takes the rest of the column to ∓|column| e₁, away from its first element.
        let mut v: Vec<f64> = (k..m).map(|i| r[[i, k]]).collect();
        let length = v.iter().fold(0.0_f64, |length, x| libm::hypot(length, *x));
        let end = if v[0] > 0.0 { -length } else { length };
        v[0] -= end;
        let size = v.iter().fold(0.0_f64, |size, x| libm::hypot(size, *x));
        if size > 0.0 || size.is_nan() {
            v.iter_mut().for_each(|x| *x /= size);
        }
        reflect(&v, k, &mut r);
        reflections.push(v);
        signs.push(if end < 0.0 { -1.0 } else { 1.0 });
    }
    let mut q = Array2::eye(m).slice(ndarray::s![.., ..n]).to_owned();
    for (k, v) in reflections.iter().enumerate().rev() {
        reflect(v, k, &mut q);
    }
    for (mut column, sign) in q.columns_mut().into_iter().zip(signs) {
        column.mapv_inplace(|x| x * sign);
    }
    q
}

/// Takes each column, from row `k` on, to itself minus 2 (v · column) v.
fn reflect(v: &[f64], k: usize, matrix: &mut Array2<f64>) {
    for mut column in matrix.columns_mut() {
        let dot = v
            .iter()
            .zip(column.iter().skip(k))
            .fold(0.0, |dot, (v, x)| dot + v * x);
        for (x, v) in column.iter_mut().skip(k).zip(v) {
            *x -= 2.0 * dot * v;
        }
    }
}
