//! Sine, cosine and tangent.
//!
//! |x| = n π/2 + r with |r| hardly above π/4; the last two bits of n pick the function of r and its sign. π/2 is in
//! three parts and r a pair, so that r keeps its digits where x is close to a multiple of π/2. Beyond a limit that
//! is not enough: see [`needs_call`].

use super::emit::Emit;
use super::exact::{two_prod, two_sum};
use super::poly::{Table, flip, horner, sign_bits};

/// The greatest magnitude the reduction is good for, in single precision.
pub(super) const LIMIT_F32: f64 = 65_536.0;
/// The greatest magnitude the reduction is good for, in double precision.
pub(super) const LIMIT_F64: f64 = 1_073_741_824.0;

/// (sin r - r) / r³ in r² up to 0.64 (f32) or 0.62 (f64).
const SIN_TAIL: Table = Table {
    single: &[
        -0.1666666716337204,
        0.008333329111337662,
        -0.00019839187734760344,
        2.7169171517016366e-06,
    ],
    double: &[
        -0.16666666666666666,
        0.008333333333333323,
        -0.00019841269841254757,
        2.7557319214026505e-06,
        -2.5052104868081585e-08,
        1.605836098800164e-10,
        -7.57841376172538e-13,
    ],
};

/// (cos r - 1 + r²/2) / r⁴ in r², likewise.
const COS_TAIL: Table = Table {
    single: &[
        0.04166664555668831,
        -0.0013887252425774932,
        2.4424951334367506e-05,
    ],
    double: &[
        0.041666666666666595,
        -0.0013888888888873758,
        2.4801587289243667e-05,
        -2.7557314280545203e-07,
        2.0875713150124977e-09,
        -1.135910594532347e-11,
    ],
};

/// sin x within 4 ulp where [`needs_call`] is false; NaN at infinity.
pub(super) fn sin<E: Emit>(e: &mut E, x: E::V) -> E::V {
    let Turned { sin, cos, n } = turn(e, x);
    let even = is_even(e, n);
    let y = e.select(even, sin, cos);
    let turned = second_bit_as_sign(e, n);
    let sign = sign_bits(e, x);
    let sign = e.ixor(sign, turned);
    flip(e, y, sign)
}

/// cos x within 4 ulp where [`needs_call`] is false; NaN at infinity.
pub(super) fn cos<E: Emit>(e: &mut E, x: E::V) -> E::V {
    let Turned { sin, cos, n } = turn(e, x);
    let even = is_even(e, n);
    let y = e.select(even, cos, sin);
    let one = e.int(1);
    let next = e.iadd(n, one);
    let sign = second_bit_as_sign(e, next);
    flip(e, y, sign)
}

/// tan x within 4 ulp where [`needs_call`] is false; NaN at infinity.
pub(super) fn tan<E: Emit>(e: &mut E, x: E::V) -> E::V {
    let Turned { sin, cos, n } = turn(e, x);
    let even = is_even(e, n);
    let minus = e.neg(cos);
    let above = e.select(even, sin, minus);
    let below = e.select(even, cos, sin);
    let y = e.div(above, below);
    let sign = sign_bits(e, x);
    flip(e, y, sign)
}

/// Whether x is finite and beyond the limit: then the results above mean nothing.
pub(super) fn needs_call<E: Emit>(e: &mut E, x: E::V) -> E::M {
    let limit = e.choose(LIMIT_F32, LIMIT_F64);
    let infinity = e.float(f64::INFINITY);
    let magnitude = e.abs(x);
    let beyond = e.lt(limit, magnitude);
    let finite = e.lt(magnitude, infinity);
    e.both(beyond, finite)
}

/// Sine and cosine of r, and the number n of quarter turns taken from |x|; only the low bits of n count.
struct Turned<E: Emit> {
    sin: E::V,
    cos: E::V,
    n: E::I,
}

fn turn<E: Emit>(e: &mut E, x: E::V) -> Turned<E> {
    let magnitude = e.abs(x);
    let per_quarter = e.float(std::f64::consts::FRAC_2_PI);
    let magic = e.magic();
    let moved = e.fma(magnitude, per_quarter, magic);
    let n = e.sub(moved, magic);
    let (r, r_low) = reduce(e, magnitude, n);

    let t = e.mul(r, r);
    let tail = horner(e, t, &SIN_TAIL);
    let cube = e.mul(t, r);
    let small = e.fma(cube, tail, r_low);
    let sin = e.add(r, small);

    // 1 - t/2 and what its rounding lost, then t² C - r r_low.
    let (half, one) = (e.float(0.5), e.float(1.0));
    let half = e.mul(half, t);
    let main = e.sub(one, half);
    let taken = e.sub(one, main);
    let lost = e.sub(taken, half);
    let tail = horner(e, t, &COS_TAIL);
    let square = e.mul(t, t);
    let small = e.fma(square, tail, lost);
    let small = e.fnma(r, r_low, small);
    let cos = e.add(main, small);
    let n = e.bits(moved);
    Turned { sin, cos, n }
}

/// x - n π/2 as a pair. The difference to n times the first part is a number of the type.
fn reduce<E: Emit>(e: &mut E, x: E::V, n: E::V) -> (E::V, E::V) {
    let first = e.choose(1.5707963705062866, std::f64::consts::FRAC_PI_2);
    let second = e.choose(-4.371138828673793e-08, 6.123233995736766e-17);
    let third = e.choose(-1.7151245100058819e-15, -1.4973849048591698e-33);
    let difference = if e.has_fma() {
        e.fnma(n, first, x)
    } else {
        let (product, low) = two_prod(e, n, first);
        let difference = e.sub(x, product);
        e.sub(difference, low)
    };
    let (product, product_low) = two_prod(e, n, second);
    let minus = e.neg(product);
    let (r, lost) = two_sum(e, difference, minus);
    let low = e.sub(lost, product_low);
    let low = e.fnma(n, third, low);
    two_sum(e, r, low)
}

/// Whether the lowest bit is zero.
fn is_even<E: Emit>(e: &mut E, n: E::I) -> E::M {
    // The bit is moved to where it makes a float two.
    let shift = e.lane().width() - 2;
    let one = e.int(1);
    let bit = e.iand(n, one);
    let bit = e.shl(bit, shift);
    let (number, zero) = (e.of_bits(bit), e.float(0.0));
    e.eq(number, zero)
}

/// The second lowest bit as a sign bit.
fn second_bit_as_sign<E: Emit>(e: &mut E, n: E::I) -> E::I {
    let shift = e.lane().width() - 2;
    let two = e.int(2);
    let bit = e.iand(n, two);
    e.shl(bit, shift)
}
