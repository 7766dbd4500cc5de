//! `tf.math.logical_and`: conjunction of booleans, elementwise with broadcasting.

use crate::build::Lower;
use crate::graph::{Eval, Gradient, Prim};
use crate::ops::op::Op;
use crate::ops::rules::primitive::bools;
use crate::ops::rules::{XY_BOOL, broadcast_xy};

/// x ∧ y.
pub(super) static OP: Op = Op {
    name: "logical_and",
    aliases: &[],
    doc: "Whether both elements are true.",
    params: XY_BOOL,
    random: false,
    lower: Lower::Elementwise(&PRIM),
    infer: broadcast_xy,
};

/// The primitive.
pub(crate) static PRIM: Prim = Prim {
    name: "logical_and",
    attrs: &[],
    infer: bools,
    gradient: Gradient::None,
    eval: Eval::Bool2(|x, y| x && y),
};
