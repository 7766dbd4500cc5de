//! Draws from the normal distribution, cut at two deviations.

use std::f64::consts::SQRT_2;

use crate::build::Lower;
use crate::ops::op::Op;
use crate::ops::rules::gauss::{deviate, drawn};
use crate::ops::rules::{NORMAL, normal};

/// mean + stddev · z, z being normal between -2 and 2.
pub(super) static OP: Op = Op {
    name: "truncated_normal",
    aliases: &[],
    doc: "Random numbers of the normal distribution, none further from `mean` than two deviations.",
    params: NORMAL,
    random: true,
    lower: Lower::By(|l| {
        // The share of the normal distribution that lies between -2 and 2 is erf √2.
        let z = (drawn(l) * libm::erf(SQRT_2)).erfinv() * SQRT_2;
        // Rounding may lead a little further.
        let z = z.minimum(z.like(2.0)).maximum(z.like(-2.0));
        Ok(vec![deviate(l, z)])
    }),
    infer: normal,
};
