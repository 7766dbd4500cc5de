//! The hyperbolic tangent.

use super::emit::Emit;
use super::exp::expm1_moderate;
use super::poly::{at_most, flip, sign_bits};

/// tanh x within 4 ulp (stated bound for f32: 5).
///
/// t / (t + 2) with t = e²ˡˣˡ - 1; from the bound on it is one to the last bit.
pub(super) fn tanh<E: Emit>(e: &mut E, x: E::V) -> E::V {
    let magnitude = e.abs(x);
    let bound = e.choose(10.0, 20.0);
    let bounded = at_most(e, magnitude, bound);
    let twice = e.add(bounded, bounded);
    let t = expm1_moderate(e, twice);
    let two = e.float(2.0);
    let below = e.add(t, two);
    let y = e.div(t, below);
    // There tanh x is x to the last bit.
    let tiny = e.choose(2f64.powi(-13), 2f64.powi(-28));
    let tiny = e.lt(magnitude, tiny);
    let y = e.select(tiny, magnitude, y);
    let sign = sign_bits(e, x);
    flip(e, y, sign)
}
