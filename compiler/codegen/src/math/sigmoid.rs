//! The logistic sigmoid and softplus, its integral.

use super::emit::{Emit, Lane};
use super::exp::{self, EXPM1_OVER_R, Reduced};
use super::poly::{Coefficients, clamp_max, clamp_min, horner, horner_at_negated};

/// 1 / (1 + e⁻ˣ) within 2.4 ulp (f32) or 3 ulp (f64) as measured (stated bounds: 5 and 4), denormal results included.
///
/// With x = k ln 2 + r it is 2ᵏ / (2ᵏ + e⁻ʳ). Numerator and denominator are scaled by 2ᶜ: so the power of two is
/// a normal number even where the result is denormal, and only the quotient rounds there.
pub(super) fn sigmoid<E: Emit>(e: &mut E, x: E::V) -> E::V {
    // Where the result is just zero, and where it is one to the last bit.
    let (low, high) = (e.choose(-104.0, -746.0), e.choose(20.0, 40.0));
    let x = clamp_min(e, x, low);
    let x = clamp_max(e, x, high);
    let (bias, c) = match e.lane() {
        Lane::F32 => (127, 24),
        Lane::F64 => (1023, 54),
    };
    let Reduced { moved, r } = exp::reduce(e, x, bias + c);
    let quotient = horner_at_negated(e, r, &EXPM1_OVER_R);
    let one = e.float(1.0);
    let inverse = e.fnma(r, quotient, one);
    let power = exp::power_of_biased(e, moved);
    let large = e.float(2f64.powi(c));
    let below = e.fma(inverse, large, power);
    e.div(power, below)
}

/// (ln (1 + z) - z) / z² for z from 0 to 1, for single precision.
///
/// (2 artanh (s / 2) - s) / s³ in s², for double precision, with s = 2 z / (2 + z).
const LOG1P: Coefficients = Coefficients {
    single: &[
        -0.4999993145465851,
        0.33330512046813965,
        -0.24958586692810059,
        0.19695396721363068,
        -0.15355385839939117,
        0.10680539160966873,
        -0.05766429752111435,
        0.020204512402415276,
        -0.003318457631394267,
    ],
    double: &[
        0.08333333333333288,
        0.012500000000048476,
        0.0022321428553216892,
        0.0004340278115950642,
        8.87780492107109e-05,
        1.8782407725226998e-05,
        4.059180041671428e-06,
        9.235341442194187e-07,
        1.591675381872345e-07,
        8.110891917349671e-08,
    ],
};

/// ln (1 + eˣ) within 2.5 ulp (f32) or 3 ulp (f64) as measured (stated bound: 4): max(x, 0) + ln (1 + e⁻ˡˣˡ), where the power is from 0 to 1.
pub(super) fn softplus<E: Emit>(e: &mut E, x: E::V) -> E::V {
    let bits = e.bits(x);
    let sign = e.bits_of(-0.0);
    let minus = e.ior(bits, sign);
    let minus = e.bits_to_float(minus);
    let z = exp::exp_of_negative(e, minus);
    let log = match e.lane() {
        Lane::F32 => {
            let tail = horner(e, z, &LOG1P);
            let square = e.mul(z, z);
            e.fma(square, tail, z)
        }
        Lane::F64 => {
            let two = e.float(2.0);
            let (above, below) = (e.add(z, z), e.add(two, z));
            let s = e.div(above, below);
            let t = e.mul(s, s);
            let tail = horner(e, t, &LOG1P);
            let small = e.mul(t, tail);
            e.fma(s, small, s)
        }
    };
    let zero = e.float(0.0);
    let ramp = clamp_min(e, x, zero);
    e.add(ramp, log)
}
