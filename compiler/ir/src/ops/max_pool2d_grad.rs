//! From what flows into the result of a max pool to what flows into its input.

use ndarray::ArrayD;

use crate::graph::{AttrKind, Eval, Gradient, Prim};
use crate::interp::{Array, EvalError, Evaluation};
use crate::ops::rules::convolution::flat;
use crate::ops::rules::pools::{Pooling, above, pooled, window};
use crate::ops::rules::primitive::arity;
use crate::types::Class;

/// `dy` goes to the first of the greatest elements of `x` under each window, as in TensorFlow's kernel for processors.
pub(crate) static PRIM: Prim = Prim {
    name: "max_pool2d_grad",
    attrs: &[
        ("ksize", AttrKind::Sizes),
        ("strides", AttrKind::Sizes),
        ("pads", AttrKind::Pairs),
    ],
    infer: |call| {
        let [x, dy] = arity(call)?;
        let made = pooled(call, x, Class::Float)?;
        match made == *dy {
            true => Ok(vec![x.clone()]),
            false => Err(format!(
                "the pool makes {made}, but what flows back is {dy}"
            )),
        }
    },
    gradient: Gradient::Each(&[
        None,
        Some(|g| g.x(0).max_pool2d_pick(g.dy(), &window(&g.attrs))),
    ]),
    eval: Eval::Whole(eval),
};

fn eval(e: &Evaluation<'_>) -> Result<Vec<Array>, EvalError> {
    let (x, dy) = (flat(e.x(0)), flat(e.x(1)));
    let places = Pooling::of(e, e.x(0).shape()).first_largest(&x, above);
    let mut dx = ArrayD::zeros(e.shape());
    let sums = dx.as_slice_mut().expect("a new array is in order");
    for (place, dy) in places.into_iter().zip(dy) {
        if let Some(i) = place {
            sums[i] += dy;
        }
    }
    Ok(vec![e.floats(dx)])
}
