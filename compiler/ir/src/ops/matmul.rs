//! Matrix multiplication over the last two dimensions, batched over those before.

use ndarray::ArrayD;

use crate::autodiff::Backward;
use crate::build::{Lower, Lowering, Value};
use crate::graph::{AttrKind, Eval, Gradient, Prim, PrimCall, Type};
use crate::interp::{Array, EvalError, Evaluation};
use crate::ops::op::{Call, Default, Elements, Kind, Op, Param, RuleError, RuleErrorKind};
use crate::ops::rules::contract::zeroed;
use crate::ops::rules::primitive::{arity, of_class};
use crate::ops::rules::shapes::made;
use crate::ops::rules::{broadcast, fits, least_rank};
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
    least_rank(call, "a", 2)?;
    least_rank(call, "b", 2)?;
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

/// One product of matrices where the right side has no batch, else one for each place of the batch.
fn lower<'g>(l: &Lowering<'g, '_>) -> Result<Vec<Value<'g>>, RuleError> {
    let [mut a, mut b] = ["a", "b"].map(|name| zeroed(l, l.value(name), l.call.tensor(name)));
    let (mut turn_a, turn_b) = (l.call.bool("transpose_a"), l.call.bool("transpose_b"));
    if b.rank() == 2 && a.rank() > 2 {
        if turn_a {
            a = a.move_axis(a.rank() - 2, a.rank() - 1);
            turn_a = false;
        }
    } else {
        let shape = l.shape(0);
        let batched = |x: Value<'g>| {
            let own = x.shape();
            x.broadcast(&[&shape[..shape.len() - 2], &own[own.len() - 2..]].concat())
        };
        (a, b) = (batched(a), batched(b));
    }
    let product = a.matmul_with(b, turn_a, turn_b);
    Ok(vec![zeroed(l, product, &l.results[0])])
}

/// The primitive: matrices are the last two dimensions, those before are equal.
pub(crate) static PRIM: Prim = Prim {
    name: "matmul",
    attrs: &[
        ("transpose_a", AttrKind::Flag),
        ("transpose_b", AttrKind::Flag),
    ],
    infer: infer_static,
    gradient: Gradient::Each(&[Some(of_left), Some(of_right)]),
    eval: Eval::Whole(eval),
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
    let turn = |flag: &str, p: usize, q: usize| if call.flag(flag) { (q, p) } else { (p, q) };
    let (m, k) = turn("transpose_a", *p, *q);
    let (l, n) = turn("transpose_b", *r, *s);
    match k == l {
        true => made(a.dtype, [batch, &[m, n]].concat()),
        false => Err(format!("the inner dimensions differ: {k} and {l}")),
    }
}

/// For y = a b: dy bᵀ, and where a is transposed, the transpose of that.
fn of_left<'g>(g: &Backward<'g>) -> Value<'g> {
    let (b, dy, turn_b) = (g.x(1), g.dy(), g.flag("transpose_b"));
    match g.flag("transpose_a") {
        false => dy.matmul_with(b, false, !turn_b),
        true => b.matmul_with(dy, turn_b, true),
    }
}

/// For y = a b: aᵀ dy, and where b is transposed, the transpose of that.
fn of_right<'g>(g: &Backward<'g>) -> Value<'g> {
    let (a, dy, turn_a) = (g.x(0), g.dy(), g.flag("transpose_a"));
    match g.flag("transpose_b") {
        false => a.matmul_with(dy, !turn_a, false),
        true => dy.matmul_with(a, true, turn_a),
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

/// The products of all matrices, their elements being given row after row.
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
    let steps = |turned: bool, rows: usize, columns: usize| match turned {
        false => (columns, 1),
        true => (1, rows),
    };
    let (a_row, a_column) = steps(e.flag("transpose_a"), m, k);
    let (b_row, b_column) = steps(e.flag("transpose_b"), k, n);
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
    ArrayD::from_shape_vec(e.shape(), y).expect("there is a sum for each place")
}
