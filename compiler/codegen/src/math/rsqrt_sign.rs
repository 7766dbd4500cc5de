//! The reciprocal square root and the sign function.

use super::emit::Emit;
use super::poly::sign_bits;

/// 1 / √x, the root and the quotient each correctly rounded: within 1.5 ulp.
pub(super) fn rsqrt<E: Emit>(e: &mut E, x: E::V) -> E::V {
    let (one, root) = (e.float(1.0), e.sqrt(x));
    e.div(one, root)
}

/// -1 or 1; x itself where x is zero or NaN.
pub(super) fn sign<E: Emit>(e: &mut E, x: E::V) -> E::V {
    let sign = sign_bits(e, x);
    let one = e.bits_of(1.0);
    let unit = e.ior(sign, one);
    let unit = e.bits_to_float(unit);
    let (zero, magnitude) = (e.float(0.0), e.abs(x));
    let nonzero = e.lt(zero, magnitude);
    e.select(nonzero, unit, x)
}
