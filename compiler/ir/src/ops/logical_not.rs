//! `tf.math.logical_not`: negation of booleans, elementwise.

use crate::build::Lower;
use crate::graph::{Eval, Gradient, Prim};
use crate::ops::op::Op;
use crate::ops::rules::primitive::bools;
use crate::ops::rules::{X_BOOL, like_x};

/// ¬x.
pub(super) static OP: Op = Op {
    name: "logical_not",
    aliases: &[],
    doc: "Whether the element is false.",
    params: X_BOOL,
    random: false,
    lower: Lower::Elementwise(&PRIM),
    infer: like_x,
};

/// The primitive.
pub(crate) static PRIM: Prim = Prim {
    name: "logical_not",
    attrs: &[],
    infer: bools,
    gradient: Gradient::None,
    eval: Eval::Tensors(|e| Ok(vec![e.x(0).bool().map(|b| !b).into()])),
};
