//! The power function pow, by double-double log and exp.

use super::emit::{Emit, Lane};
use super::error_free::{fast_two_sum, two_prod};
use super::exp::{self, ln_2};
use super::log::{Split, split_positive};
use super::poly::{Coefficients, clamp_max, clamp_min, horner, sign_bits, xor_sign};

/// (ln ((1 + s) / (1 - s)) - 2 s - 2/3 s³) / s⁵ in s² up to (√2 - 1)² / (√2 + 1)².
const TAIL: Coefficients = Coefficients {
    single: &[0.40000152587890625, 0.2854711413383484, 0.23419056832790375],
    double: &[
        0.3999999999999998,
        0.2857142857144515,
        0.222222222175269,
        0.18181818871488725,
        0.15384556790814777,
        0.13336320508625493,
        0.11674755677581673,
        0.11989537437480034,
    ],
};

/// xʸ within 4 ulp, and as measured within 1: so a representable power is exact.
///
/// e to the power of y ln |x|, with ln |x| in double-double precision. Special values as in IEEE 754: 1 for y = 0 and for
/// x = 1 whatever the other is, NaN for a finite negative x and a y that is not an integer, and so on.
pub(super) fn pow<E: Emit>(e: &mut E, x: E::V, y: E::V) -> E::V {
    let magnitude = e.abs(x);
    let power = power_of_positive(e, magnitude, y);
    let (zero, one, infinity) = (e.float(0.0), e.float(1.0), e.float(f64::INFINITY));
    let nan = e.float(f64::NAN);

    // A negative number to a fractional power is NaN.
    let integer = e.trunc(y);
    let is_integer = e.eq(integer, y);
    let negative = e.lt(x, zero);
    let of_fraction = e.select(negative, nan, power);
    let power = e.select(is_integer, power, of_fraction);

    // Zero and infinity to a power are one of the two.
    let negative_y = e.lt(y, zero);
    let (of_zero, of_infinity) = (
        e.select(negative_y, infinity, zero),
        e.select(negative_y, zero, infinity),
    );
    let is_zero = e.eq(x, zero);
    let is_infinite = e.eq(magnitude, infinity);
    let power = e.select(is_zero, of_zero, power);
    let power = e.select(is_infinite, of_infinity, power);

    // The sign of x stays where y is odd. Halving keeps every digit of an odd number.
    let half = e.float(0.5);
    let half = e.mul(integer, half);
    let half_integer = e.trunc(half);
    let even = e.eq(half, half_integer);
    let odd_sign = e.select(even, zero, x);
    let odd_sign = e.select(is_integer, odd_sign, zero);
    let sign = sign_bits(e, odd_sign);
    let signed = xor_sign(e, power, sign);

    let unordered = e.unordered(x, y);
    let signed = e.select(unordered, nan, signed);
    let x_is_one = e.eq(x, one);
    let y_is_zero = e.eq(y, zero);
    let is_one = e.mask_or(x_is_one, y_is_zero);
    e.select(is_one, one, signed)
}

/// xʸ for positive finite x.
fn power_of_positive<E: Emit>(e: &mut E, x: E::V, y: E::V) -> E::V {
    // Beyond this bound every x but 1 gives zero or infinity, and products might overflow.
    let bound = match e.lane() {
        Lane::F32 => 2f64.powi(33),
        Lane::F64 => 2f64.powi(65),
    };
    let (low, high) = (e.float(-bound), e.float(bound));
    let y = clamp_min(e, y, low);
    let y = clamp_max(e, y, high);
    let (log, log_low) = log_double_double(e, x);
    let (product, product_low) = two_prod(e, y, log);
    let product_low = e.fma(y, log_low, product_low);
    let bounded = exp::range(e, product);
    let zero = e.float(0.0);
    let inside = e.eq(bounded, product);
    let product_low = e.select(inside, product_low, zero);
    let scaled = exp::scaled_exp(e, bounded, product_low);
    scaled.scale(e, scaled.mantissa)
}

/// ln x of a positive number in double-double precision, with a relative error near 2⁻³⁵ (f32) or 2⁻⁶⁴ (f64).
///
/// With s = f / (2 + f) it is k ln 2 + 2 s + s³ (2/3 + s² R), all but R in double-double.
fn log_double_double<E: Emit>(e: &mut E, x: E::V) -> (E::V, E::V) {
    let Split { k, m } = split_positive(e, x);
    let (one, two) = (e.float(1.0), e.float(2.0));
    let f = e.sub(m, one);
    let (below, below_low) = fast_two_sum(e, two, f);
    let inverse = e.div(one, below);
    let s = e.mul(f, inverse);
    // The remainder of the division is exact.
    let rest = if e.has_fma() {
        e.fnma(s, below, f)
    } else {
        let (back, back_low) = two_prod(e, s, below);
        let rest = e.sub(f, back);
        e.sub(rest, back_low)
    };
    let rest = e.fnma(s, below_low, rest);
    let s_low = e.mul(rest, inverse);

    // s²
    let (t, t_low) = two_prod(e, s, s);
    let twice = e.add(s, s);
    let t_low = e.fma(twice, s_low, t_low);
    // 2/3 + s² R
    let tail = horner(e, t, &TAIL);
    let tail = e.mul(t, tail);
    let third = e.choose(0.6666666865348816, 0.6666666666666666);
    let third_low = e.choose(-1.9868215517249155e-08, 3.700743415417188e-17);
    let (c, c_low) = fast_two_sum(e, third, tail);
    let c_low = e.add(c_low, third_low);
    // s³ times that
    let (u, u_low) = two_prod(e, s, t);
    let u_low = e.fma(s, t_low, u_low);
    let u_low = e.fma(s_low, t, u_low);
    let (v, v_low) = two_prod(e, u, c);
    let v_low = e.fma(u, c_low, v_low);
    let v_low = e.fma(u_low, c, v_low);

    let (a, a_low) = fast_two_sum(e, twice, v);
    let a_low = e.add(a_low, v_low);
    let a_low = e.fma(two, s_low, a_low);
    let (high, low) = ln_2(e);
    let high = e.mul(k, high);
    // ln 2 is above every |a|.
    let (b, b_low) = fast_two_sum(e, high, a);
    let b_low = e.add(b_low, a_low);
    (b, e.fma(k, low, b_low))
}
