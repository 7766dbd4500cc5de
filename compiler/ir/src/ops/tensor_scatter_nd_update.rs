//! `tf.tensor_scatter_nd_update`: updates written at multi-dimensional indices.

use crate::build::{Lower, Value};
use crate::ops::op::{Elements, Kind, Op, Param};
use crate::ops::rules::positions::scatter_nd;
use crate::ops::rules::scattered_into_tensor;
use crate::types::Class;

/// `tensor` with `updates` written at `indices`.
pub(super) static OP: Op = Op {
    name: "tensor_scatter_nd_update",
    aliases: &[],
    doc: "A tensor with each of `updates` written at its position in `indices`; of equal positions the last wins.",
    params: &[
        Param::required("tensor", Kind::Tensor(Elements::Same("T", Class::Any))),
        Param::required("indices", Kind::Tensor(Elements::Of(Class::Int))),
        Param::required("updates", Kind::Tensor(Elements::Same("T", Class::Any))),
    ],
    random: false,
    lower: Lower::By(|l| Ok(vec![scatter_nd(l, l.value("tensor"), Value::scatter_set)])),
    infer: scattered_into_tensor,
};
