//! Rational approximation of odd saturating functions (tanh, erf) in single precision, by one division.
//!
//! y = a q / (q² + a²/4) with a = x A(x²) and q = Q(x²), the double-argument formula of the hyperbolic tangent:
//! if a / q is off by δ, then y is off by δ (1 - h²) / (1 + h²) with h = a / 2q. Where y comes close to one so does h, and
//! neither the error of the approximation nor the rounding of the two polynomials matters any more.

use super::emit::Emit;
use super::poly::{clamp_max, clamp_min, polynomial};

/// The coefficients of a saturating function.
pub(super) struct Saturating {
    /// A - 1 in x²: so a is x plus a small correction, and rounds once.
    pub(super) numerator: &'static [f64],
    /// Q in x².
    pub(super) denominator: &'static [f64],
    /// Where the result is exactly one, with and without fused multiply-add.
    pub(super) bound: f64,
}

/// The function at x. The coefficients suffice for single precision only.
pub(super) fn saturating<E: Emit>(e: &mut E, x: E::V, function: &Saturating) -> E::V {
    let (low, high) = (e.float(-function.bound), e.float(function.bound));
    let x = clamp_min(e, x, low);
    let x = clamp_max(e, x, high);
    let t = e.mul(x, x);
    let more = polynomial(e, t, function.numerator);
    let a = e.fma(x, more, x);
    let q = polynomial(e, t, function.denominator);
    let quarter = e.float(0.25);
    let quarter = e.mul(a, quarter);
    let square = e.mul(q, q);
    let below = e.fma(quarter, a, square);
    let above = e.mul(a, q);
    e.div(above, below)
}
