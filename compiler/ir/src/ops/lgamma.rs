//! `tf.math.lgamma`: ln |Γ(x)|, the log-gamma function, elementwise.

use crate::build::Lower;
use crate::graph::{Eval, Gradient, Prim};
use crate::ops::op::Op;
use crate::ops::rules::primitive::floats;
use crate::ops::rules::{X_FLOAT, like_x};

/// ln |Γ(x)|.
pub(super) static OP: Op = Op {
    name: "lgamma",
    aliases: &[],
    doc: "The logarithm of the absolute value of the gamma function of every element.",
    params: X_FLOAT,
    random: false,
    lower: Lower::Elementwise(&PRIM),
    infer: like_x,
};

/// The primitive. VJP: dx = dy · ψ(x).
pub(crate) static PRIM: Prim = Prim {
    name: "lgamma",
    attrs: &[],
    infer: floats,
    gradient: Gradient::Each(&[Some(|g| g.dy() * g.x(0).digamma())]),
    eval: Eval::Float1(libm::lgamma),
};
