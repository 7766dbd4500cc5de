//! The exponential function by range reduction: exp and expm1.
//!
//! eˣ = 2ᵏ eʳ with k = x / ln 2 rounded and |r| ≤ ln 2 / 2. ln 2 is split in two constants (Cody-Waite), the first short enough
//! that its product with k is exact.
//!
//! k comes out of a sum with a large constant, in the low bits of a float. The constant holds the bias of an exponent
//! as well, so that one shift makes a power of two of the sum.

use super::emit::{Emit, Lane};
use super::error_free::fast_two_sum;
use super::poly::{Coefficients, clamp_max, clamp_min, horner};

/// (eʳ - 1) / r for |r| ≤ ln 2 / 2, minimax in the relative error of eʳ.
pub(super) const EXPM1_OVER_R: Coefficients = Coefficients {
    single: &[
        1.0,
        0.4999999403953552,
        0.16666430234909058,
        0.04166802018880844,
        0.00837431475520134,
        0.0013843080960214138,
    ],
    double: &[
        1.0,
        0.5000000000000012,
        0.16666666666666216,
        0.04166666666651781,
        0.008333333333549763,
        0.0013888888946357114,
        0.00019841269436698115,
        2.4801490631585756e-05,
        2.7557626755361864e-06,
        2.7631035888047465e-07,
        2.4991421261022286e-08,
    ],
};

/// (eʳ - 1 - r) / r² for |r| ≤ 0.347.
const TAIL: Coefficients = Coefficients {
    single: &[
        0.5,
        0.16666541993618011,
        0.04166628047823906,
        0.008366677910089493,
        0.0013946607941761613,
    ],
    double: &[
        0.5000000000000006,
        0.16666666666666685,
        0.041666666666572566,
        0.00833333333331443,
        0.0013888888932749631,
        0.00019841269903445025,
        2.48015039758655e-05,
        2.755722753562398e-06,
        2.7626522025900044e-07,
        2.5114618667872513e-08,
    ],
};

/// The leading digits of ln 2 and the rest.
pub(super) fn ln_2<E: Emit>(e: &mut E) -> (E::V, E::V) {
    (
        e.choose(0.693145751953125, 0.6931471805598903),
        e.choose(1.428606765330187e-06, 5.497923018708371e-14),
    )
}

/// The exponent bias.
fn bias<E: Emit>(e: &E) -> i32 {
    match e.lane() {
        Lane::F32 => 127,
        Lane::F64 => 1023,
    }
}

/// x = k ln 2 + r.
pub(super) struct Reduced<E: Emit> {
    /// A float whose low bits are those of k + `offset`, and above them zeros up to the width of an exponent and
    /// its sign.
    pub(super) moved: E::V,
    pub(super) r: E::V,
}

/// Range reduction of a bounded x.
pub(super) fn reduce<E: Emit>(e: &mut E, x: E::V, offset: i32) -> Reduced<E> {
    let (moved, k) = nearest(e, x, offset);
    let (high, low) = ln_2(e);
    let exact = e.fnma(k, high, x);
    let r = e.fnma(k, low, exact);
    Reduced { moved, r }
}

/// k = x / ln 2 rounded to the nearest integer: with the magic number and the offset added, and plain.
fn nearest<E: Emit>(e: &mut E, x: E::V, offset: i32) -> (E::V, E::V) {
    let per_ln_2 = e.float(std::f64::consts::LOG2_E);
    let magic = e.magic_and(offset);
    let moved = e.fma(x, per_ln_2, magic);
    (moved, e.sub(moved, magic))
}

/// 2 to the power of k, where the bias was added to k.
pub(super) fn power_of_biased<E: Emit>(e: &mut E, moved: E::V) -> E::V {
    let bits = e.bits(moved);
    let shift = e.lane().mantissa();
    let bits = e.shl(bits, shift);
    e.bits_to_float(bits)
}

/// eʳ - 1.
fn expm1_reduced<E: Emit>(e: &mut E, r: E::V) -> E::V {
    let quotient = horner(e, r, &EXPM1_OVER_R);
    e.mul(r, quotient)
}

/// eˣ as a mantissa near one and two powers of two: one power alone may be out of range where eˣ is not.
pub(super) struct ScaledExp<E: Emit> {
    pub(super) mantissa: E::V,
    first: E::V,
    second: E::V,
}

impl<E: Emit> ScaledExp<E> {
    /// `mantissa` times the two powers, rounded once even if the result is denormal.
    pub(super) fn scale(&self, e: &mut E, mantissa: E::V) -> E::V {
        let once = e.mul(mantissa, self.first);
        e.mul(once, self.second)
    }
}

/// e to the power of x + low with an error hardly above the last rounding; x in [`range`] or NaN.
pub(super) fn scaled_exp<E: Emit>(e: &mut E, x: E::V, low: E::V) -> ScaledExp<E> {
    let twice_bias = 2 * bias(e);
    let (moved, k) = nearest(e, x, twice_bias);
    let (ln_high, ln_low) = ln_2(e);
    let exact = e.fnma(k, ln_high, x);
    let rest = e.fnma(k, ln_low, low);
    let (r, r_low) = fast_two_sum(e, exact, rest);

    let tail = horner(e, r, &TAIL);
    let square = e.mul(r, r);
    let one = e.float(1.0);
    let (sum, lost) = fast_two_sum(e, one, r);
    let small = e.fma(square, tail, r_low);
    let small = e.add(small, lost);
    let mantissa = e.add(sum, small);

    let (first, second) = two_powers(e, moved);
    ScaledExp {
        mantissa,
        first,
        second,
    }
}

/// Two powers of two whose product is 2 to the power of k, where twice the bias was added to k.
fn two_powers<E: Emit>(e: &mut E, moved: E::V) -> (E::V, E::V) {
    let shift = e.lane().mantissa();
    let moved = e.bits(moved);
    let half = e.shr(moved, 1);
    let rest = e.isub(moved, half);
    let (first, second) = (e.shl(half, shift), e.shl(rest, shift));
    (e.bits_to_float(first), e.bits_to_float(second))
}

/// x clamped to the range outside of which eˣ underflows to zero or overflows; NaN stays.
pub(super) fn range<E: Emit>(e: &mut E, x: E::V) -> E::V {
    let high = e.choose(89.0, 710.0);
    let x = lower_range(e, x);
    clamp_max(e, x, high)
}

/// x clamped to the bound below which eˣ underflows to zero; NaN stays.
fn lower_range<E: Emit>(e: &mut E, x: E::V) -> E::V {
    let low = e.choose(-104.0, -746.0);
    clamp_min(e, x, low)
}

/// eˣ within 1.1 ulp as measured, 1.4 without fused multiply-add (stated bounds: 2 for f32, 4 for f64).
pub(super) fn exp<E: Emit>(e: &mut E, x: E::V) -> E::V {
    let x = range(e, x);
    exp_in_range(e, x)
}

/// eˣ for x that is not positive, with the error bounds of [`exp`].
pub(super) fn exp_of_negative<E: Emit>(e: &mut E, x: E::V) -> E::V {
    let x = lower_range(e, x);
    exp_in_range(e, x)
}

/// eˣ for x in [`range`] or NaN.
fn exp_in_range<E: Emit>(e: &mut E, x: E::V) -> E::V {
    let twice_bias = 2 * bias(e);
    let Reduced { moved, r } = reduce(e, x, twice_bias);
    let quotient = horner(e, r, &EXPM1_OVER_R);
    let one = e.float(1.0);
    let mantissa = e.fma(r, quotient, one);
    let (first, second) = two_powers(e, moved);
    let once = e.mul(mantissa, first);
    e.mul(once, second)
}

/// eˣ for x from -80 to 0, by one power of two.
pub(super) fn exp_moderate<E: Emit>(e: &mut E, x: E::V) -> E::V {
    let offset = bias(e);
    let Reduced { moved, r } = reduce(e, x, offset);
    let quotient = horner(e, r, &EXPM1_OVER_R);
    let one = e.float(1.0);
    let mantissa = e.fma(r, quotient, one);
    let power = power_of_biased(e, moved);
    e.mul(mantissa, power)
}

/// eˣ - 1 within 2.5 ulp as measured (stated bound: 4).
///
/// 2 (2ᵏ⁻¹ (eʳ - 1) + (2ᵏ⁻¹ - ½)), so that the power of two stays in range up to the last finite result.
pub(super) fn expm1<E: Emit>(e: &mut E, x: E::V) -> E::V {
    let (low, high) = (e.choose(-20.0, -40.0), e.choose(89.0, 710.0));
    let bounded = clamp_min(e, x, low);
    let bounded = clamp_max(e, bounded, high);
    let offset = bias(e) - 1;
    let Reduced { moved, r } = reduce(e, bounded, offset);
    let small = expm1_reduced(e, r);
    let power = power_of_biased(e, moved);
    let half = e.float(0.5);
    let rest = e.sub(power, half);
    let sum = e.fma(power, small, rest);
    let y = e.add(sum, sum);
    // There e^x - 1 is x to the last bit; the formula would lose the sign of zero and digits of denormals.
    let tiny = e.choose(2f64.powi(-26), 2f64.powi(-55));
    let magnitude = e.abs(x);
    let tiny = e.lt(magnitude, tiny);
    e.select(tiny, x, y)
}

/// eˣ - 1 for x from 0 to 80; where x is tiny it is x itself, also if that is denormal.
pub(super) fn expm1_moderate<E: Emit>(e: &mut E, x: E::V) -> E::V {
    let offset = bias(e);
    let Reduced { moved, r } = reduce(e, x, offset);
    let small = expm1_reduced(e, r);
    let power = power_of_biased(e, moved);
    let one = e.float(1.0);
    let rest = e.sub(power, one);
    e.fma(power, small, rest)
}
