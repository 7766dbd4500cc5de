//! `tf.math.acosh`: the inverse hyperbolic cosine, elementwise.

use crate::build::Lower;
use crate::graph::{Eval, Gradient, Prim};
use crate::ops::op::Op;
use crate::ops::rules::primitive::floats;
use crate::ops::rules::{X_FLOAT, like_x};

/// acosh x; NaN below one.
pub(super) static OP: Op = Op {
    name: "acosh",
    aliases: &[],
    doc: "The number from zero up whose hyperbolic cosine is the element.",
    params: X_FLOAT,
    random: false,
    lower: Lower::Elementwise(&PRIM),
    infer: like_x,
};

/// The primitive. VJP: dx = dy / sinh(y).
pub(crate) static PRIM: Prim = Prim {
    name: "acosh",
    attrs: &[],
    infer: floats,
    gradient: Gradient::Each(&[Some(|g| g.dy() / g.y().sinh())]),
    eval: Eval::Float1(libm::acosh),
};
