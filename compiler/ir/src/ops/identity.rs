//! `tf.identity`: the tensor unchanged.

use crate::build::Lower;
use crate::ops::op::Op;
use crate::ops::rules::{X_ANY, like_x};

/// x.
pub(super) static OP: Op = Op {
    name: "identity",
    aliases: &[],
    doc: "The tensor as it is.",
    params: X_ANY,
    random: false,
    lower: Lower::By(|l| Ok(vec![l.value("x")])),
    infer: like_x,
};
