//! `tf.math.is_nan`: whether elements are NaN.

use crate::build::Lower;
use crate::graph::{Eval, Gradient, Prim};
use crate::ops::op::Op;
use crate::ops::rules::primitive::float_predicates;
use crate::ops::rules::{X_FLOAT, like_x_bool};

/// x ≠ x.
pub(super) static OP: Op = Op {
    name: "is_nan",
    aliases: &[],
    doc: "Whether the element is not a number.",
    params: X_FLOAT,
    random: false,
    lower: Lower::Elementwise(&PRIM),
    infer: like_x_bool,
};

/// The primitive.
pub(crate) static PRIM: Prim = Prim {
    name: "is_nan",
    attrs: &[],
    infer: float_predicates,
    gradient: Gradient::None,
    eval: Eval::Test1(f64::is_nan),
};
