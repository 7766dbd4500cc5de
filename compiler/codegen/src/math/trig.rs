//! Sine, cosine and tangent with Cody-Waite range reduction.
//!
//! For the sine x = n π + r, for the cosine x = (n + ½) π + r, both with |r| hardly above π/2: then the result is the sine of r,
//! negated where n is odd. For the tangent x = n π/2 + r.
//!
//! π is split into three constants. With fused multiply-add the difference to n times the first is exact; each
//! further one rounds once, in the last place of the remainder, so that r stays accurate where x is close to a
//! multiple. Beyond a limit that is not enough (Payne-Hanek reduction would be needed): see [`needs_call`].

use super::emit::Emit;
use super::error_free::{two_prod, two_sum};
use super::poly::{Coefficients, horner, xor_sign};

/// The greatest magnitude that the range reduction is valid for, in single precision.
pub(super) const LIMIT_F32: f64 = 524_288.0;
/// The greatest magnitude that the range reduction is valid for, in double precision.
pub(super) const LIMIT_F64: f64 = 35_184_372_088_832.0;

/// (sin r - r) / r³ in r² for r up to 1.05 π/2 (f32) or 1.001 π/2 (f64).
const SIN_TAIL: Coefficients = Coefficients {
    single: &[
        -0.16666656732559204,
        0.008332973346114159,
        -0.00019802710448857397,
        2.590463736851234e-06,
    ],
    double: &[
        -0.16666666666666666,
        0.008333333333333193,
        -0.0001984126984120851,
        2.7557319211012228e-06,
        -2.5052106861029292e-08,
        1.6058939097997802e-10,
        -7.642975260721474e-13,
        2.72099992716336e-15,
    ],
};

/// The numerator of tan r / r in r², for r up to 1.06 π/4 (f32) or 1.002 π/4 (f64).
const TAN_NUMERATOR: Coefficients = Coefficients {
    single: &[1.0, -0.11138585954904556, 0.0010768328793346882],
    double: &[
        1.0,
        -0.1282827859634341,
        0.002805841956416075,
        -7.48289463304575e-06,
    ],
};

/// The denominator of tan r / r in r².
const TAN_DENOMINATOR: Coefficients = Coefficients {
    single: &[1.0, -0.44471919536590576, 0.015983205288648605],
    double: &[
        1.0,
        -0.46161611929676544,
        0.02334454838861137,
        -0.00020843708560068183,
    ],
};

/// sin x within 3.2 ulp as measured (stated bound: 4) where [`needs_call`] is false; NaN at infinity.
pub(super) fn sin<E: Emit>(e: &mut E, x: E::V) -> E::V {
    let (per_half, magic) = (e.float(std::f64::consts::FRAC_1_PI), e.magic());
    let moved = e.fma(x, per_half, magic);
    let n = e.sub(moved, magic);
    let r = reduce(e, x, n, 2.0);
    sin_with_parity(e, r, moved)
}

/// cos x within 3.2 ulp as measured (stated bound: 4) where [`needs_call`] is false; NaN at infinity.
pub(super) fn cos<E: Emit>(e: &mut E, x: E::V) -> E::V {
    let per_half = e.float(std::f64::consts::FRAC_1_PI);
    let turns = e.mul(x, per_half);
    let below = e.floor(turns);
    let half = e.float(0.5);
    let n = e.add(below, half);
    let r = reduce(e, x, n, 2.0);
    // cos (π/2 + r) = -sin r: here the sign changes where n is even.
    let magic = e.magic_and(1);
    let moved = e.add(below, magic);
    sin_with_parity(e, r, moved)
}

/// tan x within 3.8 ulp as measured (stated bound: 4) where [`needs_call`] is false; NaN at infinity.
pub(super) fn tan<E: Emit>(e: &mut E, x: E::V) -> E::V {
    let (per_quarter, magic) = (e.float(std::f64::consts::FRAC_2_PI), e.magic());
    let moved = e.fma(x, per_quarter, magic);
    let n = e.sub(moved, magic);
    let r = reduce(e, x, n, 1.0);
    let t = e.mul(r, r);
    let above = horner(e, t, &TAN_NUMERATOR);
    let above = e.mul(r, above);
    let below = horner(e, t, &TAN_DENOMINATOR);
    let even = is_even(e, moved);
    let minus = e.neg(below);
    let upper = e.select(even, above, minus);
    let lower = e.select(even, below, above);
    e.div(upper, lower)
}

/// Whether x is finite and beyond the limit of the range reduction: then the results are invalid.
pub(super) fn needs_call<E: Emit>(e: &mut E, x: E::V) -> E::M {
    let limit = e.choose(LIMIT_F32, LIMIT_F64);
    let infinity = e.float(f64::INFINITY);
    let magnitude = e.abs(x);
    let beyond = e.lt(limit, magnitude);
    let finite = e.lt(magnitude, infinity);
    e.mask_and(beyond, finite)
}

/// sin r, negated where the low bit of `moved` is one (n is odd).
fn sin_with_parity<E: Emit>(e: &mut E, r: E::V, moved: E::V) -> E::V {
    let t = e.mul(r, r);
    let tail = horner(e, t, &SIN_TAIL);
    let one = e.float(1.0);
    // A product keeps the sign of zero.
    let quotient = e.fma(t, tail, one);
    let y = e.mul(r, quotient);
    let bits = e.bits(moved);
    let shift = e.lane().width() - 1;
    let sign = e.shl(bits, shift);
    xor_sign(e, y, sign)
}

/// Cody-Waite reduction x - n p π/2, where p is a power of two.
///
/// The constants of π/2 are all positive: then zero keeps its sign.
fn reduce<E: Emit>(e: &mut E, x: E::V, n: E::V, p: f64) -> E::V {
    let first = e.choose(p * 1.570796251296997, p * std::f64::consts::FRAC_PI_2);
    let second = e.choose(p * 7.549789415861596e-08, p * 6.123233995736765e-17);
    let third = e.choose(p * 5.390302953474238e-15, p * 1.082856673921914e-32);
    if e.has_fma() {
        let r = e.fnma(n, first, x);
        let r = e.fnma(n, second, r);
        return e.fnma(n, third, r);
    }
    let (product, low) = two_prod(e, n, first);
    let difference = e.sub(x, product);
    let difference = e.sub(difference, low);
    let (product, product_low) = two_prod(e, n, second);
    let minus = e.neg(product);
    let (r, lost) = two_sum(e, difference, minus);
    let low = e.sub(lost, product_low);
    let low = e.fnma(n, third, low);
    let r = e.add(r, low);
    let zero = e.float(0.0);
    let none = e.eq(n, zero);
    e.select(none, x, r)
}

/// Whether the lowest bit is zero.
fn is_even<E: Emit>(e: &mut E, moved: E::V) -> E::M {
    // The bit is moved to where it makes a float two, and the bit above it to the sign.
    let shift = e.lane().width() - 2;
    let bits = e.bits(moved);
    let bits = e.shl(bits, shift);
    let (number, zero) = (e.bits_to_float(bits), e.float(0.0));
    e.eq(number, zero)
}
