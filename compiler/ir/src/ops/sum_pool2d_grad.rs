//! From what flows into sums under a moving window to what flows into what is summed.

use ndarray::ArrayD;

use crate::graph::{AttrKind, Eval, Gradient, Prim};
use crate::interp::{Array, EvalError, Evaluation};
use crate::ops::rules::convolution::flat;
use crate::ops::rules::pools::{Pooling, pooled, window};
use crate::ops::rules::primitive::arity;
use crate::ops::rules::shapes;
use crate::types::Class;

/// Σ dy over the windows that hold an element, for each element of a tensor of the shape.
pub(crate) static PRIM: Prim = Prim {
    name: "sum_pool2d_grad",
    attrs: &[
        ("shape", AttrKind::Sizes),
        ("ksize", AttrKind::Sizes),
        ("strides", AttrKind::Sizes),
        ("pads", AttrKind::Pairs),
    ],
    infer: |call| {
        let [dy] = arity(call)?;
        let x = dy.with_shape(call.sizes("shape"));
        let made = pooled(call, &x, Class::Float)?;
        match made == *dy {
            true => shapes::made(x.dtype, x.shape),
            false => Err(format!(
                "the pool makes {made}, but what flows back is {dy}"
            )),
        }
    },
    gradient: Gradient::Each(&[Some(|g| g.dy().sum_pool2d(&window(&g.attrs)))]),
    eval: Eval::Whole(eval),
};

fn eval(e: &Evaluation<'_>) -> Result<Vec<Array>, EvalError> {
    let dy = flat(e.x(0));
    let mut dx = ArrayD::zeros(e.shape());
    let sums = dx.as_slice_mut().expect("a new array is in order");
    Pooling::of(e, e.sizes("shape")).each(|y, under| under.for_each(|i| sums[i] += dy[y]));
    Ok(vec![e.floats(dx)])
}
