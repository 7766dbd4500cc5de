//! Draws from the normal distribution, cut at two deviations.

use crate::ops::op::Op;
use crate::ops::rules::{NORMAL, normal};

/// mean + stddev · z, z being normal between -2 and 2.
pub(super) static OP: Op = Op {
    name: "truncated_normal",
    aliases: &[],
    doc: "Random numbers of the normal distribution, none further from `mean` than two deviations.",
    params: NORMAL,
    random: true,
    lower: crate::build::MISSING,
    infer: normal,
};
