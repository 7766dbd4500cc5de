//! Odd functions that grow to one, in single precision and by one quotient.
//!
//! y = a q / (q² + a²/4) with a = x A(x²) and q = Q(x²), the formula of the doubled argument for a hyperbolic tangent:
//! if a / q is off by δ, then y is off by δ (1 - h²) / (1 + h²) with h = a / 2q. Where y comes close to one so does h, and
//! neither the fit nor the rounding of the two sums counts any more.

use super::emit::Emit;
use super::poly::{at_least, at_most, sum_of_powers};

/// The sums of such a function.
pub(super) struct Saturating {
    /// A - 1 in x²: so a is x and a small part of it, and rounds once.
    pub(super) above: &'static [f64],
    /// Q in x².
    pub(super) below: &'static [f64],
    /// Where the result is exactly one, with and without fused multiply-add.
    pub(super) bound: f64,
}

/// The function at x. The terms are enough for single precision only.
pub(super) fn saturating<E: Emit>(e: &mut E, x: E::V, function: &Saturating) -> E::V {
    let (low, high) = (e.float(-function.bound), e.float(function.bound));
    let x = at_least(e, x, low);
    let x = at_most(e, x, high);
    let t = e.mul(x, x);
    let more = sum_of_powers(e, t, function.above);
    let a = e.fma(x, more, x);
    let q = sum_of_powers(e, t, function.below);
    let quarter = e.float(0.25);
    let quarter = e.mul(a, quarter);
    let square = e.mul(q, q);
    let below = e.fma(quarter, a, square);
    let above = e.mul(a, q);
    e.div(above, below)
}
