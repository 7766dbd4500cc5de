//! Random graphs of f64 whose result is differentiable almost everywhere, for gradient checks by finite differences.

use trainspec_ir::build::{Builder, Loop, Value};
use trainspec_ir::graph::Type;
use trainspec_ir::{DType, Tensor};

use crate::choice_sequence::ChoiceSequence;

/// A graph of `x0`, `x1`, … (f64) whose result `y` is a scalar that is differentiable in all of them almost everywhere.
#[derive(Debug)]
pub struct SmoothGraph {
    /// The builder of the graph, which can be extended.
    pub builder: Builder,
    /// The types of its inputs.
    pub inputs: Vec<Type>,
}

/// Generates a graph of 5 to 40 operations.
pub fn make(bytes: &[u8]) -> SmoothGraph {
    let mut c = ChoiceSequence(bytes);
    let inputs: Vec<Type> = (0..1 + c.below(3))
        .map(|_| Type::new(DType::F64, &shape(&mut c)))
        .collect();
    let builder = Builder::new("random");
    let mut pool: Vec<Value<'_>> = inputs
        .iter()
        .enumerate()
        .map(|(i, ty)| builder.input(&format!("x{i}"), ty))
        .collect();
    let operations = 5 + c.below(36);
    for _ in 0..operations {
        let value = operation(&builder, &mut c, &pool);
        // Bounds the magnitude of values, and so the error of finite differences.
        let value = if value.ty().elements() <= 200 {
            value
        } else {
            value.sum(&value.axes())
        };
        pool.push(value);
    }
    let mut total = builder.scalar(DType::F64, 0.0);
    for (i, value) in pool.iter().enumerate() {
        let weights: Vec<f64> = (0..value.ty().elements())
            .map(|j| ((i * 7 + j * 3) as f64).sin())
            .collect();
        let weights = builder.constant(Tensor::new(&value.shape(), weights));
        total = total + (value.tanh() * weights).sum(&value.axes());
    }
    builder.result("y", total);
    SmoothGraph { builder, inputs }
}

fn shape(c: &mut ChoiceSequence<'_>) -> Vec<usize> {
    let rank = c.below(4);
    // Sizes 0 and 1 are edge cases.
    (0..rank)
        .map(|_| [2, 3, 1, 4, 2, 0, 3][c.below(7)])
        .collect()
}

fn operation<'g>(b: &'g Builder, c: &mut ChoiceSequence<'_>, pool: &[Value<'g>]) -> Value<'g> {
    let x = pool[pool.len() - 1 - c.below(pool.len().min(6))];
    let y = pool[c.below(pool.len())];
    match c.below(6) {
        0 => unary(c, x),
        1 => binary(c, x, y),
        2 => structure(b, c, x, y),
        3 => reduction(c, x),
        4 => indexing(b, c, x),
        _ => larger(b, c, x, y),
    }
}

fn unary<'g>(c: &mut ChoiceSequence<'_>, x: Value<'g>) -> Value<'g> {
    let safe = x.square() + 0.5;
    match c.below(24) {
        0 => x.tanh(),
        1 => x.sin(),
        2 => x.cos(),
        3 => x.sigmoid(),
        4 => x.softplus(),
        5 => x.tanh().exp(),
        6 => safe.log(),
        7 => safe.sqrt(),
        8 => safe.rsqrt(),
        9 => x.abs(),
        10 => -x,
        11 => x.erf(),
        12 => x.atan(),
        13 => x.tanh().expm1(),
        14 => safe.log1p(),
        15 => (x.sin() * 0.9).asin(),
        16 => x.asinh(),
        17 => x.tanh().sinh() + x.tanh().cosh(),
        18 => safe.lgamma(),
        19 => safe.digamma(),
        20 => (x.sin() * 0.9).atanh(),
        21 => (x.sin() * 0.9).erfinv(),
        22 => (x.sin()).tan(),
        _ => x.square(),
    }
}

/// Values that broadcast with each other: the second one is reduced where it does not.
fn matched<'g>(x: Value<'g>, y: Value<'g>) -> Value<'g> {
    let (a, b) = (x.shape(), y.shape());
    let fits = a
        .iter()
        .rev()
        .zip(b.iter().rev())
        .all(|(m, n)| m == n || *m == 1 || *n == 1);
    if fits { y } else { y.sum(&y.axes()) }
}

fn binary<'g>(c: &mut ChoiceSequence<'_>, x: Value<'g>, y: Value<'g>) -> Value<'g> {
    let y = matched(x, y);
    match c.below(10) {
        0 => x + y,
        1 => x - y,
        2 => x * y.tanh(),
        3 => x / (y.square() + 1.0),
        4 => x.maximum(y),
        5 => x.minimum(y),
        6 => (x.tanh().square() + 0.5).pow(y.tanh()),
        7 => x.atan2(y.square() + 1.0),
        8 => x.less(y).select(x.sin(), y),
        _ => x.floormod(y.square() + 0.7) * 0.5 + y,
    }
}

fn structure<'g>(
    b: &'g Builder,
    c: &mut ChoiceSequence<'_>,
    x: Value<'g>,
    y: Value<'g>,
) -> Value<'g> {
    let shape = x.shape();
    let rank = shape.len();
    match c.below(9) {
        0 => x.reshape(&[x.ty().elements()]),
        1 => x.transpose(&(0..rank).rev().collect::<Vec<_>>()),
        2 => {
            let mut wide = vec![[1, 2, 0][c.below(3)]];
            wide.extend(
                shape
                    .iter()
                    .map(|n| if *n == 1 { 1 + c.below(3) } else { *n }),
            );
            x.broadcast(&wide)
        }
        3 => {
            let stride: Vec<usize> = shape.iter().map(|_| 1 + c.below(2)).collect();
            let begin: Vec<usize> = shape.iter().map(|n| c.below(*n + 1)).collect();
            let size: Vec<usize> = (0..rank)
                .map(|i| (shape[i] - begin[i]).div_ceil(stride[i]))
                .map(|n| n - c.below(n + 1) / 2)
                .collect();
            x.slice(&begin, &size, &stride)
        }
        4 => {
            let some =
                |c: &mut ChoiceSequence<'_>| shape.iter().map(|_| c.below(3)).collect::<Vec<_>>();
            let (low, high, inside) = (some(c), some(c), some(c));
            let value = y.sum(&y.axes()).tanh();
            x.pad(value, &low, &high, &inside)
        }
        5 => x.reverse(&c.axes(rank)),
        6 => x.expand(c.below(rank + 1)),
        7 if rank > 0 => {
            let axis = c.below(rank);
            b.concat(&[x, x.sin()], axis)
        }
        _ => x.reshape(&[&[1], &shape[..]].concat()),
    }
}

fn reduction<'g>(c: &mut ChoiceSequence<'_>, x: Value<'g>) -> Value<'g> {
    let axes = c.axes(x.rank());
    let shape = x.shape();
    let empty = axes.iter().any(|a| shape[*a] == 0);
    let kind = c.below(7);
    match kind {
        1 if !empty => x.max(&axes),
        2 if !empty => x.min(&axes),
        3 => x.tanh().prod(&axes),
        4 if !empty => x.mean(&axes),
        5 if x.rank() > 0 => x.cumsum(c.below(x.rank()), c.below(2) == 1, c.below(2) == 1),
        6 if !empty => x.sum(&axes).keep_dims(&axes),
        _ => x.sum(&axes),
    }
}

fn indexing<'g>(b: &'g Builder, c: &mut ChoiceSequence<'_>, x: Value<'g>) -> Value<'g> {
    let shape = x.shape();
    let rows = shape.first().copied().unwrap_or(0);
    if rows == 0 {
        return x.sin();
    }
    let indices: Vec<i64> = (0..c.below(5)).map(|_| c.below(rows) as i64).collect();
    let indices = b.constant(Tensor::new(&[indices.len()], indices));
    match c.below(6) {
        0 => x.take(indices),
        1 => x.scatter_add(indices, x.take(indices).sin()),
        2 => {
            let order = x.reshape(&[x.ty().elements()]).argsort(0, c.below(2) == 1);
            x.reshape(&[x.ty().elements()]).take(order)
        }
        3 => {
            let ids = b.constant(Tensor::new(
                &[rows],
                (0..rows).map(|_| c.below(3) as i64).collect(),
            ));
            let wide = x.tanh();
            wide.segment_prod(ids, 3)
        }
        4 => {
            let ids = b.constant(Tensor::new(
                &[rows],
                (0..rows).map(|i| (i % 2) as i64).collect(),
            ));
            let max = x.segment_max(ids, 2).maximum(x.like(-9.0));
            max + x.segment_min(ids, 2).minimum(x.like(9.0))
        }
        _ => {
            let set = b.constant(Tensor::new(&[1], vec![c.below(rows) as i64]));
            x.scatter_set(set, x.take(set).cos())
        }
    }
}

fn larger<'g>(b: &'g Builder, c: &mut ChoiceSequence<'_>, x: Value<'g>, y: Value<'g>) -> Value<'g> {
    let shape = x.shape();
    match c.below(4) {
        0 | 1 => {
            let n = y.ty().elements();
            let rows = shape.first().copied().unwrap_or(1);
            let columns: usize = shape.iter().skip(1).product();
            let left = x.reshape(&[rows, columns]);
            if columns != 0 && n.is_multiple_of(columns) {
                let right = y.reshape(&[n / columns, columns]);
                left.matmul_with(right, false, true)
            } else {
                left.matmul_with(left, true, false)
            }
        }
        2 if !shape.is_empty() => {
            let scan = Loop {
                length: shape[0],
                reverse: c.below(2) == 1,
                captures: vec![y.sum(&y.axes()).tanh()],
                starts: vec![b.full(&x.ty().with_shape(&shape[1..]), 0.1)],
                over: vec![x],
            };
            let (last, all) = b.scan(scan, |iteration| {
                let (h, x) = (iteration.carries[0], iteration.elements[0]);
                let at = iteration.position.cast(DType::F64) * 0.1;
                let next = (h * iteration.captures[0] + x * (h + at).cos()).tanh();
                (vec![next], vec![next * x])
            });
            match c.below(2) {
                0 => last[0],
                _ => all[0],
            }
        }
        _ => {
            let total = x.sum(&x.axes()).tanh();
            match b.gradients(&[total], &[x]).remove(0) {
                Some(gradient) => gradient.dense(),
                None => x,
            }
        }
    }
}
