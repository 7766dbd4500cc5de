//! The natural logarithm: log and log1p.
//!
//! x = 2ᵏ (1 + f) with 1 + f from √½ to √2, and ln x = k ln 2 + ln (1 + f).

use super::emit::{Emit, Lane};
use super::exp::ln_2;
use super::poly::{Coefficients, horner, sign_bits};

/// (ln (1 + f) - f) / f² in f, for single precision, from √½ - 1 to √2 - 1.
///
/// (ln ((1 + s) / (1 - s)) - 2 s) / s³ in s², for double precision, with s = f / (2 + f).
const TAIL: Coefficients = Coefficients {
    single: &[
        -0.49999991059303284,
        0.33333951234817505,
        -0.25001755356788635,
        0.19962072372436523,
        -0.16570506989955902,
        0.14917981624603271,
        -0.14307519793510437,
        0.08734798431396484,
    ],
    double: &[
        0.6666666666666735,
        0.39999999999413177,
        0.28571428742757593,
        0.22222198531943324,
        0.18183566626801576,
        0.153139879032212,
        0.14796612590122182,
    ],
};

/// x = 2ᵏ m with m from √½ to √2.
pub(super) struct Split<E: Emit> {
    pub(super) k: E::V,
    pub(super) m: E::V,
}

/// Splits a positive number into exponent and mantissa, denormals included.
pub(super) fn split_positive<E: Emit>(e: &mut E, x: E::V) -> Split<E> {
    let (min_normal, factor, more) = match e.lane() {
        Lane::F32 => (f64::from(f32::MIN_POSITIVE), 2f64.powi(23), 127 + 23),
        Lane::F64 => (f64::MIN_POSITIVE, 2f64.powi(52), 1023 + 52),
    };
    let (min_normal, factor) = (e.float(min_normal), e.float(factor));
    let denormal = e.lt(x, min_normal);
    let scaled = e.mul(x, factor);
    let x = e.select(denormal, scaled, x);
    let (zero, more) = (biased_zero(e), e.magic_and(more));
    let zero = e.select(denormal, more, zero);

    let moved = shifted_bits(e, x);
    let k = exponent(e, moved, zero);
    let lane = e.lane();
    let mask = e.int((1 << lane.mantissa()) - 1);
    let fraction = e.iand(moved, mask);
    let root = e.int(lane.bits_of(std::f64::consts::FRAC_1_SQRT_2));
    let m = e.iadd(fraction, root);
    let m = e.bits_to_float(m);
    Split { k, m }
}

/// The bits of x, shifted so that the exponent field steps at √2 instead of 1: the order of bits is that of positive floats.
fn shifted_bits<E: Emit>(e: &mut E, x: E::V) -> E::I {
    let lane = e.lane();
    let root = lane.bits_of(std::f64::consts::FRAC_1_SQRT_2);
    let by = e.int(lane.bits_of(1.0) - root);
    let bits = e.bits(x);
    e.iadd(bits, by)
}

/// The exponent field as a float, minus the difference of `zero` and [`Emit::magic`].
fn exponent<E: Emit>(e: &mut E, moved: E::I, zero: E::V) -> E::V {
    let shift = e.lane().mantissa();
    let field = e.shr(moved, shift);
    let magic = e.magic();
    let magic = e.bits(magic);
    let sum = e.ior(field, magic);
    let sum = e.bits_to_float(sum);
    e.sub(sum, zero)
}

/// The zero of [`exponent`] for a normal number: [`Emit::magic`] plus the exponent bias.
fn biased_zero<E: Emit>(e: &mut E) -> E::V {
    let bias = match e.lane() {
        Lane::F32 => 127,
        Lane::F64 => 1023,
    };
    e.magic_and(bias)
}

/// k ln 2 + ln (1 + f).
fn combine<E: Emit>(e: &mut E, k: E::V, f: E::V) -> E::V {
    let square = e.mul(f, f);
    let (high, low) = ln_2(e);
    match e.lane() {
        Lane::F32 => {
            let tail = horner(e, f, &TAIL);
            if e.has_fma() {
                // ln 2 rounds to single precision with an error of a twentieth of a unit in the last place.
                let ln_2 = e.float(std::f64::consts::LN_2);
                let log = e.fma(square, tail, f);
                return e.fma(k, ln_2, log);
            }
            let small = e.mul(k, low);
            let small = e.fma(square, tail, small);
            let sum = e.add(f, small);
            e.fma(k, high, sum)
        }
        // ln (1 + f) = f - (f²/2 - s (f²/2 + R)), which has its rounding in the small terms.
        Lane::F64 => {
            let (half, two) = (e.float(0.5), e.float(2.0));
            let below = e.add(two, f);
            let s = e.div(f, below);
            let t = e.mul(s, s);
            let tail = horner(e, t, &TAIL);
            let half_square = e.mul(half, square);
            let inner = e.fma(t, tail, half_square);
            let small = e.mul(k, low);
            let inner = e.fma(s, inner, small);
            let rest = e.sub(inner, half_square);
            let sum = e.add(f, rest);
            e.fma(k, high, sum)
        }
    }
}

/// ln x within 1.2 ulp as measured (stated bounds: 2 for f32, 4 for f64); -∞ at zero, NaN below.
pub(super) fn log<E: Emit>(e: &mut E, x: E::V) -> E::V {
    let Split { k, m } = split_positive(e, x);
    let one = e.float(1.0);
    let f = e.sub(m, one);
    let y = combine(e, k, f);
    specials(e, x, y)
}

/// Special values: the logarithm y of x, corrected where x is zero, negative, infinite or NaN.
fn specials<E: Emit>(e: &mut E, x: E::V, y: E::V) -> E::V {
    let (zero, infinity) = (e.float(0.0), e.float(f64::INFINITY));
    let (minus_infinity, nan) = (e.float(f64::NEG_INFINITY), e.float(f64::NAN));
    let positive = e.lt(zero, x);
    let is_zero = e.eq(x, zero);
    let otherwise = e.select(is_zero, minus_infinity, nan);
    let finite = e.lt(x, infinity);
    let y = e.select(finite, y, x);
    e.select(positive, y, otherwise)
}

/// ln (1 + x) within 1.8 ulp as measured (stated bound: 4); -∞ at -1, NaN below.
///
/// 2⁻ᵏ (1 + x) - 1 is 2⁻ᵏ x + (2⁻ᵏ - 1), whatever 1 + x has lost by rounding; it is x itself where k = 0.
pub(super) fn log1p<E: Emit>(e: &mut E, x: E::V) -> E::V {
    let one = e.float(1.0);
    let sum = e.add(one, x);
    let moved = shifted_bits(e, sum);
    let zero = biased_zero(e);
    let k = exponent(e, moved, zero);

    // k as it stands in an exponent field, taken from the exponents of x and of four: 2⁻ᵏ itself may be denormal.
    let lane = e.lane();
    let field = e.int(-1 << lane.mantissa());
    let field = e.iand(moved, field);
    let bits = e.bits(x);
    let unit = e.int(lane.bits_of(1.0));
    let k_field = e.isub(field, unit);
    let scaled = e.isub(bits, k_field);
    let scaled = e.bits_to_float(scaled);
    let four = e.int(lane.bits_of(4.0));
    let power = e.isub(four, k_field);
    let power = e.bits_to_float(power);
    let (quarter, minus_one) = (e.float(0.25), e.float(-1.0));
    let rest = e.fma(quarter, power, minus_one);
    let f = e.add(scaled, rest);

    let y = combine(e, k, f);
    let y = specials(e, sum, y);
    // The logarithm has the sign of x, also where both are zero.
    let sign = sign_bits(e, x);
    let y = e.bits(y);
    let y = e.ior(y, sign);
    e.bits_to_float(y)
}
