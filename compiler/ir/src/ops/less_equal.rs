//! `tf.math.less_equal`: x ≤ y, elementwise with broadcasting.

use crate::build::Lower;
use crate::graph::{Eval, Gradient, Prim};
use crate::ops::op::Op;
use crate::ops::rules::primitive::predicates;
use crate::ops::rules::{XY_NUMBER, broadcast_xy_bool};

/// x ≤ y.
pub(super) static OP: Op = Op {
    name: "less_equal",
    aliases: &[],
    doc: "Whether the first element is not greater than the second.",
    params: XY_NUMBER,
    random: false,
    lower: Lower::Elementwise(&PRIM),
    infer: broadcast_xy_bool,
};

/// The primitive.
pub(crate) static PRIM: Prim = Prim {
    name: "less_equal",
    attrs: &[],
    infer: predicates,
    gradient: Gradient::None,
    eval: Eval::Compare(|x, y| x <= y, |x, y| x <= y),
};
