//! Draws from the normal distribution.

use crate::ops::op::Op;
use crate::ops::rules::{NORMAL, normal};

/// mean + stddev · z, z being normal.
pub(super) static OP: Op = Op {
    name: "random_normal",
    aliases: &[],
    doc: "Random numbers of the normal distribution around `mean` (0) with the deviation `stddev` (1).",
    params: NORMAL,
    random: true,
    lower: crate::build::MISSING,
    infer: normal,
};
