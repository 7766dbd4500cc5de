//! `tf.stop_gradient`: the tensor unchanged, without a gradient.

use crate::build::Lower;
use crate::graph::{Eval, Gradient, Prim};
use crate::ops::op::Op;
use crate::ops::rules::primitive::anything;
use crate::ops::rules::{X_ANY, like_x};

/// x, whose gradient is zero.
pub(super) static OP: Op = Op {
    name: "stop_gradient",
    aliases: &[],
    doc: "The tensor as it is; no gradient flows through.",
    params: X_ANY,
    random: false,
    lower: Lower::Elementwise(&PRIM),
    infer: like_x,
};

/// The primitive.
pub(crate) static PRIM: Prim = Prim {
    name: "stop_gradient",
    attrs: &[],
    infer: anything,
    gradient: Gradient::None,
    eval: Eval::Tensors(|e| Ok(vec![e.x(0).clone()])),
};
