//! `tf.nn.max_pool2d`: max pooling over height and width.

use ndarray::ArrayD;

use crate::build::{Lower, Lowering, Value};
use crate::graph::{AttrKind, Eval, Gradient, Prim};
use crate::interp::{Array, EvalError, Evaluation};
use crate::ops::op::{Op, RuleError};
use crate::ops::rules::pools::{Pooling, above, pooled, window};
use crate::ops::rules::primitive::arity;
use crate::ops::rules::{POOL_NUMBER, Window, pool};
use crate::types::Class;

/// max over the window; padding is not counted.
pub(super) static OP: Op = Op {
    name: "max_pool2d",
    aliases: &[],
    doc: "The greatest element under a window that moves over height and width.",
    params: POOL_NUMBER,
    random: false,
    lower: Lower::By(lower),
    infer: pool,
};

/// The primitive. NaN is propagated; an empty window gives -∞ or the smallest integer of the type. VJP: `max_pool2d_grad`.
pub(crate) static PRIM: Prim = Prim {
    name: "max_pool2d",
    attrs: &[
        ("ksize", AttrKind::Sizes),
        ("strides", AttrKind::Sizes),
        ("pads", AttrKind::Pairs),
    ],
    infer: |call| {
        let [x] = arity(call)?;
        Ok(vec![pooled(call, x, Class::Number)?])
    },
    gradient: Gradient::Each(&[Some(|g| g.x(0).max_pool2d_grad(g.dy(), &window(&g.attrs)))]),
    eval: Eval::Tensors(eval),
};

fn eval(e: &Evaluation<'_>) -> Result<Vec<Array>, EvalError> {
    let pooling = Pooling::of(e, e.x(0).shape());
    let fits = "an argmax for each element";
    Ok(vec![match e.x(0) {
        Array::Float(x) => {
            let x: Vec<f64> = x.iter().copied().collect();
            let argmax = pooling.argmax_per_window(&x, above).into_iter();
            let y = argmax.map(|i| i.map_or(f64::NEG_INFINITY, |i| x[i]));
            e.floats(ArrayD::from_shape_vec(e.shape(), y.collect()).expect(fits))
        }
        Array::Int(x) => {
            let x: Vec<i64> = x.iter().copied().collect();
            let min = e.results[0].dtype.int_range().map_or(i64::MIN, |r| r.0);
            let argmax = pooling.argmax_per_window(&x, |a, b| a > b).into_iter();
            let y = argmax.map(|i| i.map_or(min, |i| x[i]));
            e.ints(ArrayD::from_shape_vec(e.shape(), y.collect()).expect(fits))
        }
        Array::Bool(_) => unreachable!("the rule takes numbers"),
    }])
}

fn lower<'g>(l: &Lowering<'g, '_>) -> Result<Vec<Value<'g>>, RuleError> {
    let x = l.value("input");
    let window = Window::of_pool(l.call)?.pool(&x.shape())?;
    Ok(vec![x.max_pool2d(&window)])
}
