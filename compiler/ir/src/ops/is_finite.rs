//! `tf.math.is_finite`: whether elements are neither infinite nor NaN.

use crate::build::Lower;
use crate::graph::{Eval, Gradient, Prim};
use crate::ops::op::Op;
use crate::ops::rules::primitive::float_predicates;
use crate::ops::rules::{X_FLOAT, like_x_bool};

/// Neither infinite nor NaN.
pub(super) static OP: Op = Op {
    name: "is_finite",
    aliases: &[],
    doc: "Whether the element is a finite number.",
    params: X_FLOAT,
    random: false,
    lower: Lower::Elementwise(&PRIM),
    infer: like_x_bool,
};

/// The primitive.
pub(crate) static PRIM: Prim = Prim {
    name: "is_finite",
    attrs: &[],
    infer: float_predicates,
    gradient: Gradient::None,
    eval: Eval::Test1(f64::is_finite),
};
