//! The logistic function and its integral.

use super::emit::Emit;
use super::exp;
use super::log::log1p_regular;

/// 1 / (1 + e⁻ˣ) within 4 ulp (stated bound for f32: 5), subnormal results included.
///
/// With z = e⁻ˡˣˡ, which cannot overflow, it is 1 / (1 + z) or z / (1 + z).
pub(super) fn sigmoid<E: Emit>(e: &mut E, x: E::V) -> E::V {
    let z = exp_of_minus_abs(e, x);
    let (zero, one) = (e.float(0.0), e.float(1.0));
    let below = e.add(one, z);
    let negative = e.lt(x, zero);
    let above = e.select(negative, z, one);
    e.div(above, below)
}

/// ln (1 + eˣ) within 4 ulp: max(x, 0) + ln (1 + e⁻ˡˣˡ).
pub(super) fn softplus<E: Emit>(e: &mut E, x: E::V) -> E::V {
    let z = exp_of_minus_abs(e, x);
    let log = log1p_regular(e, z);
    let zero = e.float(0.0);
    let positive = e.lt(zero, x);
    let ramp = e.select(positive, x, zero);
    let sum = e.add(ramp, log);
    // The bits of a NaN are no number to take the logarithm of.
    let nan = e.unordered(x, x);
    e.select(nan, x, sum)
}

fn exp_of_minus_abs<E: Emit>(e: &mut E, x: E::V) -> E::V {
    let magnitude = e.abs(x);
    let minus = e.neg(magnitude);
    exp::exp(e, minus)
}
