//! Draws from the normal distribution.

use std::f64::consts::SQRT_2;

use crate::build::Lower;
use crate::ops::op::Op;
use crate::ops::rules::gauss::{deviate, drawn};
use crate::ops::rules::{NORMAL, normal};

/// mean + stddev · z, z being normal.
pub(super) static OP: Op = Op {
    name: "random_normal",
    aliases: &[],
    doc: "Random numbers of the normal distribution around `mean` (0) with the deviation `stddev` (1).",
    params: NORMAL,
    random: true,
    lower: Lower::By(|l| Ok(vec![deviate(l, drawn(l).erfinv() * SQRT_2)])),
    infer: normal,
};
