//! The angle of a point.

use crate::ops::op::{Elements, Kind, Op, Param};
use crate::ops::rules::broadcast_xy;
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
    infer: broadcast_xy,
};
