//! `tf.math.atan2`: the angle of the point (x, y), elementwise.

use crate::build::Lower;
use crate::graph::{Eval, Gradient, Prim};
use crate::ops::op::{Elements, Kind, Op, Param};
use crate::ops::rules::broadcast_xy;
use crate::ops::rules::primitive::floats;
use crate::types::Class;

/// The angle of the point (x, y), from -π to π.
pub(super) static OP: Op = Op {
    name: "atan2",
    aliases: &[],
    doc: "The angle of the point with the ordinate `y` and the abscissa `x`.",
    params: &[
        Param::required("y", Kind::Tensor(Elements::Same("T", Class::Float))),
        Param::required("x", Kind::Tensor(Elements::Same("T", Class::Float))),
    ],
    random: false,
    lower: Lower::Elementwise(&PRIM),
    infer: broadcast_xy,
};

/// The primitive. VJP: with r² = x₀² + x₁²: dx₀ = dy · x₁ / r², dx₁ = -dy · x₀ / r².
pub(crate) static PRIM: Prim = Prim {
    name: "atan2",
    attrs: &[],
    infer: floats,
    gradient: Gradient::Each(&[
        Some(|g| g.dy() * g.x(1) / (g.x(0).square() + g.x(1).square())),
        Some(|g| -g.dy() * g.x(0) / (g.x(0).square() + g.x(1).square())),
    ]),
    eval: Eval::Float2(libm::atan2),
};
