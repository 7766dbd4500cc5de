//! `tf.linalg.matmul`: the matrix product of the last two dimensions, batched over those before (GEMM).

use ndarray::ArrayD;

use crate::autodiff::Backward;
use crate::build::{Lower, Lowering, Value};
use crate::graph::{AttrKind, Eval, Gradient, Prim, PrimCall, Type};
use crate::interp::{Array, EvalError, Evaluation};
use crate::ops::op::{Call, Default, Elements, Kind, Op, Param, RuleError, RuleErrorKind};
use crate::ops::rules::contract::zero_past_counts;
use crate::ops::rules::primitive::{arity, of_class};
use crate::ops::rules::shapes::one_result;
use crate::ops::rules::{broadcast, fits, min_rank};
use crate::types::{Class, Dim, Shape, TensorType};

/// a @ b.
pub(super) static OP: Op = Op {
    name: "matmul",
    aliases: &[],
    doc: "The matrix product of the last two dimensions; dimensions before them are broadcast.",
    params: &[
        Param::required("a", Kind::Tensor(Elements::Same("T", Class::Number))),
        Param::required("b", Kind::Tensor(Elements::Same("T", Class::Number))),
        Param::with("transpose_a", Kind::Bool, Default::Bool(false)),
        Param::with("transpose_b", Kind::Bool, Default::Bool(false)),
    ],
    random: false,
    lower: Lower::By(lower),
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    min_rank(call, "a", 2)?;
    min_rank(call, "b", 2)?;
    let (a, b) = (call.tensor("a"), call.tensor("b"));
    let (m, k) = last_two(a, call.bool("transpose_a"));
    let (l, n) = last_two(b, call.bool("transpose_b"));
    if k != l {
        let error = RuleError::new(
            RuleErrorKind::ShapeMismatch,
            format!("the inner dimensions differ: {k} and {l}"),
        );
        return Err(if k == n {
            error.help("transpose the right operand: `matmul(a, b, transpose_b: true)`")
        } else if m == l {
            error.help("transpose the left operand: `matmul(a, b, transpose_a: true)`")
        } else {
            error.help(format!("the right operand needs {k} rows, but has {l}"))
        });
    }
    let mut shape = broadcast(&batch(a), &batch(b))?;
    shape.0.extend([m.clone(), n.clone()]);
    fits(TensorType::new(a.dtype, shape))
}

fn last_two(t: &TensorType, transposed: bool) -> (&Dim, &Dim) {
    let [.., p, q] = t.shape.0.as_slice() else {
        unreachable!("the rank was checked");
    };
    if transposed { (q, p) } else { (p, q) }
}

fn batch(t: &TensorType) -> Shape {
    Shape(t.shape.0[..t.rank() - 2].to_vec())
}

/// One matrix product where the right side has no batch dimensions, else one for each batch element.
fn lower<'g>(l: &Lowering<'g, '_>) -> Result<Vec<Value<'g>>, RuleError> {
    let [mut a, mut b] =
        ["a", "b"].map(|name| zero_past_counts(l, l.value(name), l.call.tensor(name)));
    let (mut transpose_a, transpose_b) = (l.call.bool("transpose_a"), l.call.bool("transpose_b"));
    if b.rank() == 2 && a.rank() > 2 {
        if transpose_a {
            a = a.move_axis(a.rank() - 2, a.rank() - 1);
            transpose_a = false;
        }
    } else {
        let shape = l.shape(0);
        let batched = |x: Value<'g>| {
            let own = x.shape();
            x.broadcast(&[&shape[..shape.len() - 2], &own[own.len() - 2..]].concat())
        };
        (a, b) = (batched(a), batched(b));
    }
    let product = a.matmul_with(b, transpose_a, transpose_b);
    Ok(vec![zero_past_counts(l, product, &l.results[0])])
}

/// The primitive: matrices are the last two dimensions, those before are equal.
pub(crate) static PRIM: Prim = Prim {
    name: "matmul",
    attrs: &[
        ("transpose_a", AttrKind::Flag),
        ("transpose_b", AttrKind::Flag),
    ],
    infer: infer_static,
    gradient: Gradient::Each(&[Some(left_vjp), Some(right_vjp)]),
    eval: Eval::Tensors(eval),
};

fn infer_static(call: &PrimCall<'_>) -> Result<Vec<Type>, String> {
    let [a, b] = arity(call)?;
    of_class(a, Class::Number)?;
    if a.dtype != b.dtype {
        return Err(format!("the elements are {} and {}", a.dtype, b.dtype));
    }
    let ([batch @ .., p, q], [others @ .., r, s]) = (&a.shape[..], &b.shape[..]) else {
        return Err("a matrix has at least 2 dimensions".to_owned());
    };
    if batch != others {
        return Err("the dimensions before the last two differ".to_owned());
    }
    let matrix = |flag: &str, p: usize, q: usize| if call.flag(flag) { (q, p) } else { (p, q) };
    let (m, k) = matrix("transpose_a", *p, *q);
    let (l, n) = matrix("transpose_b", *r, *s);
    match k == l {
        true => one_result(a.dtype, [batch, &[m, n]].concat()),
        false => Err(format!("the inner dimensions differ: {k} and {l}")),
    }
}

/// The VJP with respect to a: da = dy bᵀ, transposed where a is.
fn left_vjp<'g>(g: &Backward<'g>) -> Value<'g> {
    let (b, dy, transpose_b) = (g.x(1), g.dy(), g.flag("transpose_b"));
    match g.flag("transpose_a") {
        false => dy.matmul_with(b, false, !transpose_b),
        true => b.matmul_with(dy, transpose_b, true),
    }
}

/// The VJP with respect to b: db = aᵀ dy, transposed where b is.
fn right_vjp<'g>(g: &Backward<'g>) -> Value<'g> {
    let (a, dy, transpose_a) = (g.x(0), g.dy(), g.flag("transpose_a"));
    match g.flag("transpose_b") {
        false => a.matmul_with(dy, !transpose_a, false),
        true => dy.matmul_with(a, true, transpose_a),
    }
}

fn eval(e: &Evaluation<'_>) -> Result<Vec<Array>, EvalError> {
    Ok(vec![match (e.x(0), e.x(1)) {
        (Array::Float(a), Array::Float(b)) => {
            let (a, b) = (a.iter().copied().collect(), b.iter().copied().collect());
            e.floats(products(e, a, b, 0.0, |sum, x, y| sum + x * y))
        }
        (a, b) => {
            let (a, b) = (a.int().iter().copied(), b.int().iter().copied());
            let add = |sum: i64, x: i64, y| sum.wrapping_add(x.wrapping_mul(y));
            e.ints(products(e, a.collect(), b.collect(), 0, add))
        }
    }])
}

/// The products of all matrices of a batch, their elements in row-major order.
fn products<T: Copy>(
    e: &Evaluation<'_>,
    a: Vec<T>,
    b: Vec<T>,
    zero: T,
    add: impl Fn(T, T, T) -> T,
) -> ArrayD<T> {
    let shape = &e.results[0].shape;
    let [batch @ .., m, n] = &shape[..] else {
        unreachable!("the rule asks for two dimensions");
    };
    let (m, n, left) = (*m, *n, &e.types[0].shape);
    let k = left[left.len() - if e.flag("transpose_a") { 2 } else { 1 }];
    let strides = |transposed: bool, rows: usize, columns: usize| match transposed {
        false => (columns, 1),
        true => (1, rows),
    };
    let (a_row, a_column) = strides(e.flag("transpose_a"), m, k);
    let (b_row, b_column) = strides(e.flag("transpose_b"), k, n);
    let mut y = vec![zero; shape.iter().product()];
    for matrix in 0..batch.iter().product() {
        let (a, b) = (&a[matrix * m * k..], &b[matrix * k * n..]);
        for i in 0..m {
            let row = &mut y[(matrix * m + i) * n..][..n];
            for l in 0..k {
                let x = a[i * a_row + l * a_column];
                for (j, sum) in row.iter_mut().enumerate() {
                    *sum = add(*sum, x, b[l * b_row + j * b_column]);
                }
            }
        }
    }
    ArrayD::from_shape_vec(e.shape(), y).expect("there is a sum for each element")
}
