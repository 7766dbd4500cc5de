//! `tf.math.equal`: x = y, elementwise with broadcasting.

use crate::build::Lower;
use crate::graph::{Eval, Gradient, Prim};
use crate::ops::op::Op;
use crate::ops::rules::primitive::predicates;
use crate::ops::rules::{XY_ANY, broadcast_xy_bool};

/// x = y; false for NaN.
pub(super) static OP: Op = Op {
    name: "equal",
    aliases: &[],
    doc: "Whether the elements of two tensors are equal.",
    params: XY_ANY,
    random: false,
    lower: Lower::Elementwise(&PRIM),
    infer: broadcast_xy_bool,
};

/// The primitive.
pub(crate) static PRIM: Prim = Prim {
    name: "equal",
    attrs: &[],
    infer: predicates,
    gradient: Gradient::None,
    eval: Eval::Compare(|x, y| x == y, |x, y| x == y),
};
