//! `tf.unique`: the distinct values of a vector in the order of first occurrence.

use std::collections::HashMap;

use ndarray::{Array1, ArrayD, arr0};

use crate::build::{Lower, Lowering, Value};
use crate::graph::{Eval, Gradient, Prim, PrimCall, Type};
use crate::interp::{Array, EvalError, Evaluation};
use crate::ops::op::{Call, Elements, Kind, Op, Param, RuleError};
use crate::ops::rules::dims;
use crate::ops::rules::primitive::{arity, of_class};
use crate::types::{Class, DType, Dim, TensorType};

/// The distinct values of x in the order of first occurrence, and for each element the index of its value.
pub(super) static OP: Op = Op {
    name: "unique",
    aliases: &[],
    doc: "The distinct elements of a vector, in the order in which they first occur, and for each element the index of its value.",
    params: &[Param::counting(
        "x",
        Kind::Tensor(Elements::Same("T", Class::Any)),
    )],
    random: false,
    lower: Lower::By(lower),
    infer,
};

fn infer(call: &Call<'_>) -> Result<Vec<TensorType>, RuleError> {
    let x = call.tensor("x");
    let [n] = dims(call, "x")?;
    let values = x.with_dims(vec![Dim::at_most(n.size.clone(), call.count())]);
    Ok(vec![values, x.with_dtype(DType::I32)])
}

/// Of a counted vector the values past the count come last, so the count of distinct values is just smaller.
fn lower<'g>(l: &Lowering<'g, '_>) -> Result<Vec<Value<'g>>, RuleError> {
    let [values, positions, all] = l.value("x").unique();
    let [dim] = dims(l.call, "x")?;
    let count = match l.count(dim) {
        Some(_) if positions.shape() != [0] => {
            let last = l.mask(positions, std::slice::from_ref(dim), &[0], -1.0);
            last.max(&[0]).cast(DType::I64) + 1.0
        }
        _ => all,
    };
    l.define_count(&l.call.count(), count);
    Ok(vec![values, positions])
}

/// The primitive: the distinct values padded with 0, for each element the index (i32) of its value, and their number
/// (i64). Zeros of both signs are one value; each NaN is a value of its own.
pub(crate) static PRIM: Prim = Prim {
    name: "unique",
    attrs: &[],
    infer: infer_prim,
    gradient: Gradient::None,
    eval: Eval::Tensors(eval),
};

fn infer_prim(call: &PrimCall<'_>) -> Result<Vec<Type>, String> {
    let [x] = arity(call)?;
    of_class(x, Class::Any)?;
    match x.shape.as_slice() {
        [n] if i32::try_from(*n).is_ok() => Ok(vec![
            x.clone(),
            x.with_dtype(DType::I32),
            Type::scalar(DType::I64),
        ]),
        [_] => Err(format!("{x} has more elements than an i32 can count")),
        _ => Err(format!("the operand must be a vector, not {x}")),
    }
}

fn eval(e: &Evaluation<'_>) -> Result<Vec<Array>, EvalError> {
    let (firsts, positions) = match e.x(0) {
        // What is equal has the same bits after -0 became 0; NaN has no key, because it equals nothing.
        Array::Float(x) => order(x.iter().map(|x| (!x.is_nan()).then(|| (x + 0.0).to_bits()))),
        Array::Int(x) => order(x.iter().map(|n| Some(*n as u64))),
        Array::Bool(x) => order(x.iter().map(|b| Some(u64::from(*b)))),
    };
    let values = match e.x(0) {
        Array::Float(x) => padded(&firsts, x.len(), |i| x[[i]]).into(),
        Array::Int(x) => padded(&firsts, x.len(), |i| x[[i]]).into(),
        Array::Bool(x) => padded(&firsts, x.len(), |i| x[[i]]).into(),
    };
    let count = arr0(firsts.len() as i64).into_dyn();
    Ok(vec![
        values,
        Array1::from_vec(positions).into_dyn().into(),
        count.into(),
    ])
}

/// The index of each value's first occurrence, and for each element the index of its value.
fn order(keys: impl Iterator<Item = Option<u64>>) -> (Vec<usize>, Vec<i64>) {
    let (mut known, mut firsts, mut positions) = (HashMap::new(), Vec::new(), Vec::new());
    for (i, key) in keys.enumerate() {
        let next = firsts.len() as i64;
        let position = match key {
            Some(key) => *known.entry(key).or_insert(next),
            None => next,
        };
        if position == next {
            firsts.push(i);
        }
        positions.push(position);
    }
    (firsts, positions)
}

/// The elements at some indices, padded with 0 or false to `n` elements.
fn padded<T: Clone + Default>(indices: &[usize], n: usize, at: impl Fn(usize) -> T) -> ArrayD<T> {
    let mut values: Vec<T> = indices.iter().map(|i| at(*i)).collect();
    values.resize(n, T::default());
    Array1::from_vec(values).into_dyn()
}
