//! `tf.math.log1p`: ln(1 + x) without cancellation near zero, elementwise.

use crate::build::Lower;
use crate::graph::{Eval, Gradient, Prim};
use crate::ops::op::Op;
use crate::ops::rules::primitive::floats;
use crate::ops::rules::{X_FLOAT, like_x};

/// ln (1 + x), exact also near zero.
pub(super) static OP: Op = Op {
    name: "log1p",
    aliases: &[],
    doc: "The natural logarithm of one plus every element, exact also near zero.",
    params: X_FLOAT,
    random: false,
    lower: Lower::Elementwise(&PRIM),
    infer: like_x,
};

/// The primitive. VJP: dx = dy / (1 + x).
pub(crate) static PRIM: Prim = Prim {
    name: "log1p",
    attrs: &[],
    infer: floats,
    gradient: Gradient::Each(&[Some(|g| g.dy() / (1.0 + g.x(0)))]),
    eval: Eval::Float1(libm::log1p),
};
