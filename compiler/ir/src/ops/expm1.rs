//! `tf.math.expm1`: eˣ - 1 without cancellation near zero, elementwise.

use crate::build::Lower;
use crate::graph::{Eval, Gradient, Prim};
use crate::ops::op::Op;
use crate::ops::rules::primitive::floats;
use crate::ops::rules::{X_FLOAT, like_x};

/// eˣ - 1, exact also near zero.
pub(super) static OP: Op = Op {
    name: "expm1",
    aliases: &[],
    doc: "e to the power of every element, less one, exact also near zero.",
    params: X_FLOAT,
    random: false,
    lower: Lower::Elementwise(&PRIM),
    infer: like_x,
};

/// The primitive. VJP: dx = dy · eˣ.
pub(crate) static PRIM: Prim = Prim {
    name: "expm1",
    attrs: &[],
    infer: floats,
    gradient: Gradient::Each(&[Some(|g| g.dy() * g.x(0).exp())]),
    eval: Eval::Float1(libm::expm1),
};
