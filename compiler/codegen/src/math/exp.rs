//! The exponential function.
//!
//! eˣ = 2ᵏ eʳ with k = x / ln 2 rounded and |r| ≤ ln 2 / 2. ln 2 is kept in two parts, the first short enough that
//! its product with k is exact.

use super::emit::Emit;
use super::exact::fast_two_sum;
use super::poly::{Table, at_least, at_most, horner};

/// (eʳ - 1 - r) / r² for |r| ≤ 0.347.
const TAIL: Table = Table {
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

/// x = k ln 2 + r.
struct Reduced<E: Emit> {
    /// k above [`Emit::magic`], whose low bits are those of k.
    moved: E::V,
    k: E::V,
    r: E::V,
    /// What r lacks, where x was a pair.
    r_low: Option<E::V>,
}

fn reduce<E: Emit>(e: &mut E, x: E::V, x_low: Option<E::V>) -> Reduced<E> {
    let per_ln_2 = e.float(std::f64::consts::LOG2_E);
    let magic = e.magic();
    let moved = e.fma(x, per_ln_2, magic);
    let k = e.sub(moved, magic);
    let (high, low) = ln_2(e);
    let exact = e.fnma(k, high, x);
    let Some(x_low) = x_low else {
        let r = e.fnma(k, low, exact);
        return Reduced {
            moved,
            k,
            r,
            r_low: None,
        };
    };
    let rest = e.fnma(k, low, x_low);
    let (r, r_low) = fast_two_sum(e, exact, rest);
    Reduced {
        moved,
        k,
        r,
        r_low: Some(r_low),
    }
}

/// eʳ - 1 - r.
fn tail<E: Emit>(e: &mut E, r: E::V) -> E::V {
    let q = horner(e, r, &TAIL);
    let square = e.mul(r, r);
    e.mul(square, q)
}

/// eˣ as a number near one and two powers of two whose product it lacks: one power alone may be out of range where
/// eˣ is not.
pub(super) struct Parts<E: Emit> {
    pub(super) mantissa: E::V,
    first: E::V,
    second: E::V,
}

impl<E: Emit> Parts<E> {
    /// `mantissa` times the two powers, rounded once even if the result is subnormal.
    pub(super) fn scale(&self, e: &mut E, mantissa: E::V) -> E::V {
        let once = e.mul(mantissa, self.first);
        e.mul(once, self.second)
    }
}

/// e to the power of x, or of x + low with an error hardly above the last rounding; x in [`range`] or NaN.
pub(super) fn parts<E: Emit>(e: &mut E, x: E::V, low: Option<E::V>) -> Parts<E> {
    let Reduced { moved, k, r, r_low } = reduce(e, x, low);
    let tail = tail(e, r);
    let one = e.float(1.0);
    let mantissa = if let Some(r_low) = r_low {
        let (sum, lost) = fast_two_sum(e, one, r);
        let small = e.add(tail, r_low);
        let small = e.add(small, lost);
        e.add(sum, small)
    } else {
        let small = e.add(r, tail);
        e.add(one, small)
    };
    let (half, magic) = (e.float(0.5), e.magic());
    let half_moved = e.fma(k, half, magic);
    let (moved, half_moved) = (e.bits(moved), e.bits(half_moved));
    let rest = e.isub(moved, half_moved);
    Parts {
        mantissa,
        first: power_of_two(e, half_moved),
        second: power_of_two(e, rest),
    }
}

/// 2 to the power of the low bits of k.
fn power_of_two<E: Emit>(e: &mut E, k: E::I) -> E::V {
    let shift = e.lane().mantissa();
    let exponent = e.shl(k, shift);
    let one = e.bits_of(1.0);
    let bits = e.iadd(exponent, one);
    e.of_bits(bits)
}

/// x brought to where eˣ is just zero or just infinite; NaN stays.
pub(super) fn range<E: Emit>(e: &mut E, x: E::V) -> E::V {
    let (low, high) = (e.choose(-104.0, -746.0), e.choose(89.0, 710.0));
    let x = at_least(e, x, low);
    at_most(e, x, high)
}

/// eˣ within 1.1 ulp as measured (stated bounds: 2 for f32, 4 for f64).
pub(super) fn exp<E: Emit>(e: &mut E, x: E::V) -> E::V {
    let x = range(e, x);
    let parts = parts(e, x, None);
    parts.scale(e, parts.mantissa)
}

/// eˣ for x from -80 to 0, by one power of two.
pub(super) fn exp_moderate<E: Emit>(e: &mut E, x: E::V) -> E::V {
    let Reduced { moved, r, .. } = reduce(e, x, None);
    let tail = tail(e, r);
    let one = e.float(1.0);
    let small = e.add(r, tail);
    let mantissa = e.add(one, small);
    let k = e.bits(moved);
    let power = power_of_two(e, k);
    e.mul(mantissa, power)
}

/// eˣ - 1 within 4 ulp.
///
/// 2 (2ᵏ⁻¹ (eʳ - 1) + (2ᵏ⁻¹ - ½)), so that the power of two stays in range up to the last finite result.
pub(super) fn expm1<E: Emit>(e: &mut E, x: E::V) -> E::V {
    let (low, high) = (e.choose(-20.0, -40.0), e.choose(89.0, 710.0));
    let bounded = at_least(e, x, low);
    let bounded = at_most(e, bounded, high);
    let y = expm1_moderate(e, bounded);
    // There e^x - 1 is x to the last bit; the formula would lose the sign of zero and digits of subnormals.
    let tiny = e.choose(2f64.powi(-26), 2f64.powi(-55));
    let magnitude = e.abs(x);
    let tiny = e.lt(magnitude, tiny);
    e.select(tiny, x, y)
}

/// eˣ - 1 for x from -80 to the first infinite result, zero and subnormals excepted.
pub(super) fn expm1_moderate<E: Emit>(e: &mut E, x: E::V) -> E::V {
    let Reduced { moved, r, .. } = reduce(e, x, None);
    let tail = tail(e, r);
    let small = e.add(r, tail);
    let k = e.bits(moved);
    let one = e.int(1);
    let less = e.isub(k, one);
    let power = power_of_two(e, less);
    let half = e.float(0.5);
    let rest = e.sub(power, half);
    let sum = e.fma(power, small, rest);
    e.add(sum, sum)
}
