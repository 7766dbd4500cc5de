//! Error-free transformations (TwoSum, FastTwoSum, TwoProd): double-double arithmetic, a number as an unevaluated sum of two floats.

use super::emit::{Emit, Lane};

/// TwoSum: a + b and its rounding error (Knuth).
pub(super) fn two_sum<E: Emit>(e: &mut E, a: E::V, b: E::V) -> (E::V, E::V) {
    let sum = e.add(a, b);
    let b_part = e.sub(sum, a);
    let a_part = e.sub(sum, b_part);
    let b_lost = e.sub(b, b_part);
    let a_lost = e.sub(a, a_part);
    (sum, e.add(a_lost, b_lost))
}

/// FastTwoSum: a + b and its rounding error, where a is zero or |a| ≥ |b| (Dekker).
pub(super) fn fast_two_sum<E: Emit>(e: &mut E, a: E::V, b: E::V) -> (E::V, E::V) {
    let sum = e.add(a, b);
    let b_part = e.sub(sum, a);
    (sum, e.sub(b, b_part))
}

/// TwoProd: a · b and its rounding error, for operands far from overflow (Dekker's product where there is no fused multiply-add).
pub(super) fn two_prod<E: Emit>(e: &mut E, a: E::V, b: E::V) -> (E::V, E::V) {
    let product = e.mul(a, b);
    if e.has_fma() {
        return (product, e.fms(a, b, product));
    }
    let (a_high, a_low) = split(e, a);
    let (b_high, b_low) = split(e, b);
    let mut error = e.mul(a_high, b_high);
    error = e.sub(error, product);
    for (x, y) in [(a_high, b_low), (a_low, b_high), (a_low, b_low)] {
        let part = e.mul(x, y);
        error = e.add(error, part);
    }
    (product, error)
}

/// Veltkamp splitting: the upper and the lower half of the mantissa of a.
fn split<E: Emit>(e: &mut E, a: E::V) -> (E::V, E::V) {
    let factor = match e.lane() {
        Lane::F32 => 4_097.0,
        Lane::F64 => 134_217_729.0,
    };
    let factor = e.float(factor);
    let large = e.mul(a, factor);
    let rest = e.sub(large, a);
    let high = e.sub(large, rest);
    (high, e.sub(a, high))
}
