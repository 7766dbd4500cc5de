//! `tf.random.normal`: samples of the normal distribution.

use std::f64::consts::SQRT_2;

use crate::build::Lower;
use crate::ops::op::Op;
use crate::ops::rules::normal_sampling::{scale_and_shift, symmetric_uniform};
use crate::ops::rules::{NORMAL, normal};

/// mean + stddev · z, z being standard normal by inverse transform sampling.
pub(super) static OP: Op = Op {
    name: "random_normal",
    aliases: &[],
    doc: "Random numbers of the normal distribution with the mean `mean` (0) and the standard deviation `stddev` (1).",
    params: NORMAL,
    random: true,
    lower: Lower::By(|l| {
        Ok(vec![scale_and_shift(
            l,
            symmetric_uniform(l).erfinv() * SQRT_2,
        )])
    }),
    infer: normal,
};
