//! `tf.math.ceil`: ⌈x⌉, rounding up, elementwise.

use crate::build::Lower;
use crate::graph::{Eval, Gradient, Prim};
use crate::ops::op::Op;
use crate::ops::rules::primitive::floats;
use crate::ops::rules::{X_FLOAT, like_x};

/// ⌈x⌉.
pub(super) static OP: Op = Op {
    name: "ceil",
    aliases: &[],
    doc: "The least integer not below the element.",
    params: X_FLOAT,
    random: false,
    lower: Lower::Elementwise(&PRIM),
    infer: like_x,
};

/// The primitive.
pub(crate) static PRIM: Prim = Prim {
    name: "ceil",
    attrs: &[],
    infer: floats,
    gradient: Gradient::None,
    eval: Eval::Float1(f64::ceil),
};
