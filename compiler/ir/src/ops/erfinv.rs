//! `tf.math.erfinv`: the inverse error function (Wichura's AS 241 and one Newton step), elementwise.

use std::f64::consts::{PI, SQRT_2};

use crate::graph::{Eval, Gradient, Prim};
use crate::ops::rules::primitive::floats;

/// y with erf y = x; ±∞ at ±1, NaN beyond. VJP: dx = dy · √π/2 · exp(y²).
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
    // In the tails erf is 1 but for its last digits, so erfc is compared there.
    let excess = match x.abs() < 0.5 {
        true => libm::erf(y) - x.abs(),
        false => rest - libm::erfc(y),
    };
    let y = y - excess * half_sqrt_pi() * libm::exp(y * y);
    y.copysign(x)
}

/// The two-sided quantile of the standard normal distribution: P(|Z| > quantile) = `rest` = 1 - x.
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
    3.3871328727963665,
    133.14166789178438,
    1971.5909503065513,
    13731.69376550946,
    45921.95393154987,
    67265.7709270087,
    33430.57558358813,
    2509.0809287301227,
];
const B: [f64; 8] = [
    1.0,
    42.31333070160091,
    687.1870074920579,
    5394.196021424751,
    21213.794301586597,
    39307.89580009271,
    28729.085735721943,
    5226.495278852854,
];
const C: [f64; 8] = [
    1.4234371107496835,
    4.630337846156546,
    5.769497221460691,
    3.6478483247632045,
    1.2704582524523684,
    0.2417807251774506,
    0.022723844989269184,
    0.0007745450142783414,
];
const D: [f64; 8] = [
    1.0,
    2.053191626637759,
    1.6763848301838038,
    0.6897673349851,
    0.14810397642748008,
    0.015198666563616457,
    0.0005475938084995345,
    1.0507500716444169e-09,
];
const E: [f64; 8] = [
    6.657904643501103,
    5.463784911164114,
    1.7848265399172913,
    0.29656057182850487,
    0.026532189526576124,
    0.0012426609473880784,
    2.7115555687434876e-05,
    2.0103343992922881e-07,
];
const F: [f64; 8] = [
    1.0,
    0.599832206555888,
    0.1369298809227358,
    0.014875361290850615,
    0.0007868691311456133,
    1.8463183175100548e-05,
    1.421511758316446e-07,
    2.0442631033899397e-15,
];
