//! `tf.math.sinh`: the hyperbolic sine, elementwise.

use crate::build::Lower;
use crate::graph::{Eval, Gradient, Prim};
use crate::ops::op::Op;
use crate::ops::rules::primitive::floats;
use crate::ops::rules::{X_FLOAT, like_x};

/// sinh x = (eˣ - e⁻ˣ) / 2.
pub(super) static OP: Op = Op {
    name: "sinh",
    aliases: &[],
    doc: "The hyperbolic sine of every element.",
    params: X_FLOAT,
    random: false,
    lower: Lower::Elementwise(&PRIM),
    infer: like_x,
};

/// The primitive. VJP: dx = dy · cosh(x).
pub(crate) static PRIM: Prim = Prim {
    name: "sinh",
    attrs: &[],
    infer: floats,
    gradient: Gradient::Each(&[Some(|g| g.dy() * g.x(0).cosh())]),
    eval: Eval::Float1(libm::sinh),
};
