//! `tf.math.cosh`: the hyperbolic cosine, elementwise.

use crate::build::Lower;
use crate::graph::{Eval, Gradient, Prim};
use crate::ops::op::Op;
use crate::ops::rules::primitive::floats;
use crate::ops::rules::{X_FLOAT, like_x};

/// cosh x = (eˣ + e⁻ˣ) / 2.
pub(super) static OP: Op = Op {
    name: "cosh",
    aliases: &[],
    doc: "The hyperbolic cosine of every element.",
    params: X_FLOAT,
    random: false,
    lower: Lower::Elementwise(&PRIM),
    infer: like_x,
};

/// The primitive. VJP: dx = dy · sinh(x).
pub(crate) static PRIM: Prim = Prim {
    name: "cosh",
    attrs: &[],
    infer: floats,
    gradient: Gradient::Each(&[Some(|g| g.dy() * g.x(0).sinh())]),
    eval: Eval::Float1(libm::cosh),
};
