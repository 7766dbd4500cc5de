//! `tf.math.exp`: eˣ, elementwise.

use crate::build::Lower;
use crate::graph::{Eval, Gradient, Prim};
use crate::ops::op::Op;
use crate::ops::rules::primitive::floats;
use crate::ops::rules::{X_FLOAT, like_x};

/// eˣ.
pub(super) static OP: Op = Op {
    name: "exp",
    aliases: &[],
    doc: "e to the power of every element.",
    params: X_FLOAT,
    random: false,
    lower: Lower::Elementwise(&PRIM),
    infer: like_x,
};

/// The primitive. VJP: dx = dy · y.
pub(crate) static PRIM: Prim = Prim {
    name: "exp",
    attrs: &[],
    infer: floats,
    gradient: Gradient::Each(&[Some(|g| g.dy() * g.y())]),
    eval: Eval::Float1(libm::exp),
};
