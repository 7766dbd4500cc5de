//! The elements of one tensor where those of another are the greatest under a moving window.

use ndarray::ArrayD;

use crate::graph::{AttrKind, Eval, Gradient, Prim};
use crate::interp::{Array, EvalError, Evaluation};
use crate::ops::rules::convolution::flat;
use crate::ops::rules::pools::{Pooling, above, pooled, window};
use crate::ops::rules::primitive::{alike, arity};
use crate::types::Class;

/// z at the first of the greatest elements of x under each window; 0 under one that holds nothing.
pub(crate) static PRIM: Prim = Prim {
    name: "max_pool2d_pick",
    attrs: &[
        ("ksize", AttrKind::Sizes),
        ("strides", AttrKind::Sizes),
        ("pads", AttrKind::Pairs),
    ],
    infer: |call| {
        let [x, _] = arity(call)?;
        alike(call, Class::Float)?;
        Ok(vec![pooled(call, x, Class::Float)?])
    },
    gradient: Gradient::Each(&[
        None,
        Some(|g| g.x(0).max_pool2d_grad(g.dy(), &window(&g.attrs))),
    ]),
    eval: Eval::Whole(eval),
};

fn eval(e: &Evaluation<'_>) -> Result<Vec<Array>, EvalError> {
    let (x, z) = (flat(e.x(0)), flat(e.x(1)));
    let places = Pooling::of(e, e.x(0).shape()).first_largest(&x, above);
    let picked = places.into_iter().map(|i| i.map_or(0.0, |i| z[i]));
    let y = ArrayD::from_shape_vec(e.shape(), picked.collect());
    Ok(vec![e.floats(y.expect("a place for each element"))])
}
