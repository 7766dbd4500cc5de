//! `tf.tensor_scatter_nd_add`: updates added at multi-dimensional indices.

use crate::build::{Lower, Value};
use crate::ops::op::{Elements, Kind, Op, Param};
use crate::ops::rules::positions::scatter_nd;
use crate::ops::rules::scattered_into_tensor;
use crate::types::Class;

/// `tensor` plus `updates` at `indices`.
pub(super) static OP: Op = Op {
    name: "tensor_scatter_nd_add",
    aliases: &[],
    doc: "A tensor with each of `updates` added at its position in `indices`.",
    params: &[
        Param::required("tensor", Kind::Tensor(Elements::Same("T", Class::Number))),
        Param::required("indices", Kind::Tensor(Elements::Of(Class::Int))),
        Param::required("updates", Kind::Tensor(Elements::Same("T", Class::Number))),
    ],
    random: false,
    lower: Lower::By(|l| Ok(vec![scatter_nd(l, l.value("tensor"), Value::scatter_add)])),
    infer: scattered_into_tensor,
};
