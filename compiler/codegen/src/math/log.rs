//! The natural logarithm.
//!
//! x = 2ᵏ (1 + f) with 1 + f from √½ to √2, and ln x = k ln 2 + ln (1 + f).

use super::emit::{Emit, Lane};
use super::exact::two_sum;
use super::exp::ln_2;
use super::poly::{Table, horner};

/// (ln (1 + f) - f + f²/2) / f³ in f, for single precision, from √½ - 1 to √2 - 1.
///
/// (ln ((1 + s) / (1 - s)) - 2 s) / s³ in s², for double precision, with s = f / (2 + f).
const TAIL: Table = Table {
    single: &[
        0.33333316445350647,
        -0.25000810623168945,
        0.2000228464603424,
        -0.16624559462070465,
        0.14181244373321533,
        -0.13128763437271118,
        0.12881289422512054,
        -0.07859129458665848,
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
    /// The biased exponent k is from.
    field: E::I,
}

/// Splits a positive normal number; others give numbers without meaning.
pub(super) fn split_normal<E: Emit>(e: &mut E, x: E::V) -> Split<E> {
    let bias = match e.lane() {
        Lane::F32 => 127.0,
        Lane::F64 => 1023.0,
    };
    let bias = e.float(bias);
    split(e, x, bias)
}

/// Splits a positive number, subnormal ones too.
pub(super) fn split_positive<E: Emit>(e: &mut E, x: E::V) -> Split<E> {
    let (least, factor, bias, more) = match e.lane() {
        Lane::F32 => (f64::from(f32::MIN_POSITIVE), 2f64.powi(23), 127.0, 150.0),
        Lane::F64 => (f64::MIN_POSITIVE, 2f64.powi(52), 1023.0, 1075.0),
    };
    let (least, factor) = (e.float(least), e.float(factor));
    let subnormal = e.lt(x, least);
    let scaled = e.mul(x, factor);
    let x = e.select(subnormal, scaled, x);
    let (bias, more) = (e.float(bias), e.float(more));
    let bias = e.select(subnormal, more, bias);
    split(e, x, bias)
}

fn split<E: Emit>(e: &mut E, x: E::V, bias: E::V) -> Split<E> {
    let lane = e.lane();
    let root = lane.bits_of(std::f64::consts::FRAC_1_SQRT_2);
    // The bits grow with the number: moved by this much, the exponent field steps at √2 instead of 1.
    let move_by = e.int(lane.bits_of(1.0) - root);
    let bits = e.bits(x);
    let moved = e.iadd(bits, move_by);
    let field = e.shr(moved, lane.mantissa());
    let mask = e.int((1 << lane.mantissa()) - 1);
    let fraction = e.iand(moved, mask);
    let root = e.int(root);
    let m = e.iadd(fraction, root);
    let m = e.of_bits(m);
    let k = e.to_float(field);
    let k = e.sub(k, bias);
    Split { k, m, field }
}

/// k ln 2 + ln (1 + f).
fn combine<E: Emit>(e: &mut E, k: E::V, f: E::V) -> E::V {
    let square = e.mul(f, f);
    let half = e.float(0.5);
    let (high, low) = ln_2(e);
    let rest = match e.lane() {
        Lane::F32 => {
            let tail = horner(e, f, &TAIL);
            let tail = e.mul(tail, f);
            let tail = e.mul(tail, square);
            let tail = e.fma(k, low, tail);
            e.fnma(half, square, tail)
        }
        // ln (1 + f) = f - (f²/2 - s (f²/2 + R)), which has its rounding in the small terms.
        Lane::F64 => {
            let two = e.float(2.0);
            let below = e.add(two, f);
            let s = e.div(f, below);
            let t = e.mul(s, s);
            let tail = horner(e, t, &TAIL);
            let half_square = e.mul(half, square);
            let inner = e.fma(t, tail, half_square);
            let small = e.mul(k, low);
            let inner = e.fma(s, inner, small);
            e.sub(inner, half_square)
        }
    };
    let sum = e.add(f, rest);
    e.fma(k, high, sum)
}

/// ln x within 1 ulp as measured (stated bounds: 2 for f32, 4 for f64); -∞ at zero, NaN below.
pub(super) fn log<E: Emit>(e: &mut E, x: E::V) -> E::V {
    let Split { k, m, .. } = split_positive(e, x);
    let one = e.float(1.0);
    let f = e.sub(m, one);
    let y = combine(e, k, f);
    specials(e, x, y)
}

/// The logarithm y of x, put right where x is zero, negative, infinite or NaN.
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

/// ln (1 + x) within 4 ulp; -∞ at -1, NaN below.
pub(super) fn log1p<E: Emit>(e: &mut E, x: E::V) -> E::V {
    let one = e.float(1.0);
    let sum = e.add(one, x);
    let y = log1p_regular(e, x);
    let y = specials(e, sum, y);
    // There ln (1 + x) is x to the last bit; the formula would lose the sign of zero.
    let tiny = e.choose(2f64.powi(-26), 2f64.powi(-55));
    let magnitude = e.abs(x);
    let tiny = e.lt(magnitude, tiny);
    e.select(tiny, x, y)
}

/// ln (1 + x) for finite x above -1.
///
/// 1 + x is split; what its rounding lost is added to f, so that f is x itself where k = 0.
pub(super) fn log1p_regular<E: Emit>(e: &mut E, x: E::V) -> E::V {
    let one = e.float(1.0);
    let (sum, lost) = two_sum(e, one, x);
    let Split { k, m, field } = split_normal(e, sum);
    let f = e.sub(m, one);
    // 2⁻ᵏ; beyond 2⁶⁰ it may leave the range, and nothing that was lost matters.
    let shift = e.lane().mantissa();
    let exponent = e.shl(field, shift);
    let twice = e.lane().bits_of(1.0).wrapping_mul(2);
    let twice = e.int(twice);
    let power = e.isub(twice, exponent);
    let power = e.of_bits(power);
    let more = e.fma(lost, power, f);
    let large = e.float(2f64.powi(60));
    let large = e.lt(large, x);
    let f = e.select(large, f, more);
    combine(e, k, f)
}
