//! Evaluation of minimax polynomials (Horner's rule), clamping and sign operations.

use super::emit::{Emit, Lane};

/// The coefficients of a polynomial for either lane type, the constant one first.
///
/// They are minimax fits in the weighted error (Remez), computed for this module in 200-bit arithmetic and then rounded to the
/// lane type.
pub(super) struct Coefficients {
    pub(super) single: &'static [f64],
    pub(super) double: &'static [f64],
}

/// The polynomial at x, by Horner's rule.
pub(super) fn horner<E: Emit>(e: &mut E, x: E::V, table: &Coefficients) -> E::V {
    let coefficients = match e.lane() {
        Lane::F32 => table.single,
        Lane::F64 => table.double,
    };
    polynomial(e, x, coefficients)
}

/// The polynomial of these coefficients at x, the constant one first, by Horner's rule.
pub(super) fn polynomial<E: Emit>(e: &mut E, x: E::V, coefficients: &[f64]) -> E::V {
    horner_steps(e, x, coefficients.iter().copied())
}

/// The polynomial at -x.
pub(super) fn horner_at_negated<E: Emit>(e: &mut E, x: E::V, table: &Coefficients) -> E::V {
    let coefficients = match e.lane() {
        Lane::F32 => table.single,
        Lane::F64 => table.double,
    };
    let coefficients = coefficients.iter().enumerate();
    let signed = coefficients.map(|(power, c)| if power % 2 == 0 { *c } else { -*c });
    horner_steps(e, x, signed)
}

fn horner_steps<E: Emit>(
    e: &mut E,
    x: E::V,
    coefficients: impl DoubleEndedIterator<Item = f64>,
) -> E::V {
    let mut falling = coefficients.rev();
    let last = falling.next().expect("a polynomial has coefficients");
    let mut sum = e.float(last);
    for c in falling {
        let c = e.float(c);
        sum = e.fma(sum, x, c);
    }
    sum
}

/// min(x, bound); NaN where x is.
pub(super) fn clamp_max<E: Emit>(e: &mut E, x: E::V, bound: E::V) -> E::V {
    let above = e.lt(bound, x);
    e.select(above, bound, x)
}

/// max(x, bound); NaN where x is.
pub(super) fn clamp_min<E: Emit>(e: &mut E, x: E::V, bound: E::V) -> E::V {
    let below = e.lt(x, bound);
    e.select(below, bound, x)
}

/// The sign bits of x.
pub(super) fn sign_bits<E: Emit>(e: &mut E, x: E::V) -> E::I {
    let bits = e.bits(x);
    let mask = e.bits_of(-0.0);
    e.iand(bits, mask)
}

/// y with its sign flipped where the sign bit is set.
pub(super) fn xor_sign<E: Emit>(e: &mut E, y: E::V, sign: E::I) -> E::V {
    let bits = e.bits(y);
    let bits = e.ixor(bits, sign);
    e.bits_to_float(bits)
}
