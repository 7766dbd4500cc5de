//! `tf.random.truncated_normal`: samples of the normal distribution, truncated at two standard deviations.

use std::f64::consts::SQRT_2;

use crate::build::Lower;
use crate::ops::op::Op;
use crate::ops::rules::normal_sampling::{scale_and_shift, symmetric_uniform};
use crate::ops::rules::{NORMAL, normal};

/// mean + stddev · z, z being standard normal truncated to [-2, 2], by inverse transform sampling.
pub(super) static OP: Op = Op {
    name: "truncated_normal",
    aliases: &[],
    doc: "Random numbers of the normal distribution, none further from `mean` than two standard deviations.",
    params: NORMAL,
    random: true,
    lower: Lower::By(|l| {
        // The probability mass of the standard normal distribution in [-2, 2] is erf √2.
        let z = (symmetric_uniform(l) * libm::erf(SQRT_2)).erfinv() * SQRT_2;
        // Rounding may exceed the bounds a little.
        let z = z.minimum(z.like(2.0)).maximum(z.like(-2.0));
        Ok(vec![scale_and_shift(l, z)])
    }),
    infer: normal,
};
