//! The derivatives of the digamma function.

/// ψ⁽ⁿ⁾(x).
pub(super) fn polygamma(_order: usize, _x: f64) -> f64 {
    todo!()
}
