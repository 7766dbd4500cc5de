//! The inverse of the error function.

use std::f64::consts::{PI, SQRT_2};

use crate::graph::{Eval, Gradient, Prim};
use crate::ops::rules::primitive::floats;

/// y with erf y = x; ±∞ at ±1, NaN beyond.
pub(crate) static PRIM: Prim = Prim {
    name: "erfinv",
    attrs: &[],
    infer: floats,
    gradient: Gradient::Each(&[Some(|g| g.dy() * (g.y().square().exp() * half_sqrt_pi()))]),
    eval: Eval::Float1(erfinv),
};

/// √π / 2.
fn half_sqrt_pi() -> f64 {
    PI.sqrt() / 2.0
}

/// Wichura's AS 241 (PPND16), then one step of Newton's method.
fn erfinv(x: f64) -> f64 {
    let rest = 1.0 - x.abs();
    if x == 0.0 || x.is_nan() {
        return x;
    }
    if rest <= 0.0 {
        return if rest < 0.0 {
            f64::NAN
        } else {
            f64::INFINITY.copysign(x)
        };
    }
    let y = quantile(x.abs(), rest) / SQRT_2;
    // Far out erf is 1 but for its last digits, so what is left of 1 is compared there.
    let excess = match x.abs() < 0.5 {
        true => libm::erf(y) - x.abs(),
        false => rest - libm::erfc(y),
    };
    let y = y - excess * half_sqrt_pi() * libm::exp(y * y);
    y.copysign(x)
}

/// The number that a normal deviate is further from 0 than with the probability `rest`, which is 1 - x.
fn quantile(x: f64, rest: f64) -> f64 {
    if x <= 0.85 {
        let q = x / 2.0;
        let r = 0.180625 - q * q;
        return q * polynomial(&A, r) / polynomial(&B, r);
    }
    let r = (-libm::log(rest / 2.0)).sqrt();
    if r <= 5.0 {
        polynomial(&C, r - 1.6) / polynomial(&D, r - 1.6)
    } else {
        polynomial(&E, r - 5.0) / polynomial(&F, r - 5.0)
    }
}

/// Σ cᵢ xⁱ.
fn polynomial(coefficients: &[f64; 8], x: f64) -> f64 {
    coefficients.iter().rev().fold(0.0, |sum, c| sum * x + c)
}

const A: [f64; 8] = [
    3.3871328727963666080,
    1.3314166789178437745e+2,
    1.9715909503065514427e+3,
    1.3731693765509461125e+4,
    4.5921953931549871457e+4,
    6.7265770927008700853e+4,
    3.3430575583588128105e+4,
    2.5090809287301226727e+3,
];
const B: [f64; 8] = [
    1.0,
    4.2313330701600911252e+1,
    6.8718700749205790830e+2,
    5.3941960214247511077e+3,
    2.1213794301586595867e+4,
    3.9307895800092710610e+4,
    2.8729085735721942674e+4,
    5.2264952788528545610e+3,
];
const C: [f64; 8] = [
    1.42343711074968357734,
    4.63033784615654529590,
    5.76949722146069140550,
    3.64784832476320460504,
    1.27045825245236838258,
    2.41780725177450611770e-1,
    2.27238449892691845833e-2,
    7.74545014278341407640e-4,
];
const D: [f64; 8] = [
    1.0,
    2.05319162663775882187,
    1.67638483018380384940,
    6.89767334985100004550e-1,
    1.48103976427480074590e-1,
    1.51986665636164571966e-2,
    5.47593808499534494600e-4,
    1.05075007164441684324e-9,
];
const E: [f64; 8] = [
    6.65790464350110377720,
    5.46378491116411436990,
    1.78482653991729133580,
    2.96560571828504891230e-1,
    2.65321895265761230930e-2,
    1.24266094738807843860e-3,
    2.71155556874348757815e-5,
    2.01033439929228813265e-7,
];
const F: [f64; 8] = [
    1.0,
    5.99832206555887937690e-1,
    1.36929880922735805310e-1,
    1.48753612908506148525e-2,
    7.86869131145613259100e-4,
    1.84631831751005468180e-5,
    1.42151175831644588870e-7,
    2.04426310338993978564e-15,
];
