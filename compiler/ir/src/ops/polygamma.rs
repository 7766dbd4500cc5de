//! `tf.math.polygamma`: ψ⁽ⁿ⁾(x), the derivatives of the digamma function.

use std::f64::consts::PI;

use ndarray::ArrayD;

use crate::graph::{AttrKind, Eval, Gradient, Prim, PrimCall, Type};
use crate::ops::rules::primitive::{arity, floats};

/// The maximum order: not far beyond it the factorials overflow f64.
const MAX_ORDER: usize = 100;

/// ψ⁽ⁿ⁾(x), n being the order; 0 is `digamma` itself. VJP: dx = dy · ψ⁽ⁿ⁺¹⁾(x).
pub(crate) static PRIM: Prim = Prim {
    name: "polygamma",
    attrs: &[("order", AttrKind::Size)],
    infer,
    gradient: Gradient::Each(&[Some(|g| g.dy() * g.x(0).polygamma(g.size("order") + 1))]),
    eval: Eval::Tensors(|e| {
        let order = e.size("order");
        let y: ArrayD<f64> = e.x(0).float().map(|x| polygamma(order, *x));
        Ok(vec![e.floats(y)])
    }),
};

fn infer(call: &PrimCall<'_>) -> Result<Vec<Type>, String> {
    let [_] = arity(call)?;
    match call.size("order") {
        0..=MAX_ORDER => floats(call),
        n => Err(format!("the order must be at most {MAX_ORDER}, not {n}")),
    }
}

/// The asymptotic series is used from this x plus the order on.
const MIN_ASYMPTOTIC_X: usize = 12;

/// ψ⁽ⁿ⁾(x): the recurrence up to a large x, then the asymptotic series; reflection below 0 (Abramowitz and Stegun 6.3.5 to
/// 6.3.18, 6.4.6 to 6.4.11). At the poles it is ∞ where both sides agree on it, else NaN.
///
/// # Panics
///
/// When n is larger than the primitive takes, 100.
pub fn polygamma(n: usize, x: f64) -> f64 {
    if x.is_nan() || x == f64::NEG_INFINITY {
        return f64::NAN;
    }
    if x <= 0.0 && x == x.floor() {
        return if n % 2 == 1 { f64::INFINITY } else { f64::NAN };
    }
    if x < 0.0 {
        let mirrored = polygamma(n, 1.0 - x);
        let mirrored = if n % 2 == 1 { -mirrored } else { mirrored };
        return mirrored - cotangent(n, x);
    }
    let large = (MIN_ASYMPTOTIC_X + n) as f64;
    let mut x = x;
    let (mut terms, mut count) = ([0.0; MAX_ORDER + MIN_ASYMPTOTIC_X + 1], 0);
    while x < large {
        terms[count] = term(n, x);
        count += 1;
        x += 1.0;
    }
    // Summed from the smallest term up, for accuracy.
    let sum = terms[..count].iter().rev();
    let sum = sum.fold(series(n, x), |sum, t| sum + t);
    if n % 2 == 1 { sum } else { -sum }
}

/// n! / xⁿ⁺¹.
fn term(n: usize, x: f64) -> f64 {
    (1..=n).fold(1.0 / x, |t, k| t * (k as f64 / x))
}

/// (-1)ⁿ⁺¹ ψ⁽ⁿ⁾(x) for a large x: (n - 1)! / xⁿ + n! / 2xⁿ⁺¹ + Σ B₂ₖ (2k + n - 1)! / ((2k)! x²ᵏ⁺ⁿ), where the first is -ln x for
/// n = 0.
fn series(n: usize, x: f64) -> f64 {
    let leading = match n {
        0 => -libm::log(x),
        n => term(n - 1, x),
    };
    let second = term(n, x);
    let mut factor = second * (n + 1) as f64 / (2.0 * x);
    let mut sum = 0.0;
    for (i, b) in BERNOULLI.iter().enumerate() {
        sum += b * factor;
        let m = 2 * (i + 1);
        let (p, q) = ((m + n + 1) as f64 / x, (m + n) as f64 / x);
        factor *= p * q / ((m + 2) * (m + 1)) as f64;
    }
    leading + (second / 2.0 + sum)
}

/// The n-th derivative of π cot πx: πⁿ⁺¹ Q(cot πx), where Q is c and each derivative takes Q to -(1 + c²) Q'.
fn cotangent(n: usize, x: f64) -> f64 {
    let r = x - x.round();
    let cosine = libm::sin(PI * (0.5 - r.abs()));
    let c = cosine / libm::sin(PI * r);
    let (mut q, mut next) = ([0.0; MAX_ORDER + 2], [0.0; MAX_ORDER + 2]);
    q[1] = 1.0;
    for degree in 1..=n {
        next[..degree + 2].fill(0.0);
        for i in 1..=degree {
            let derivative = q[i] * i as f64 * -PI;
            next[i - 1] += derivative;
            next[i + 1] += derivative;
        }
        std::mem::swap(&mut q, &mut next);
    }
    PI * q[..n + 2].iter().rev().fold(0.0, |sum, a| sum * c + a)
}

/// B₂, B₄, ….
const BERNOULLI: [f64; 13] = [
    1.0 / 6.0,
    -1.0 / 30.0,
    1.0 / 42.0,
    -1.0 / 30.0,
    5.0 / 66.0,
    -691.0 / 2730.0,
    7.0 / 6.0,
    -3617.0 / 510.0,
    43867.0 / 798.0,
    -174611.0 / 330.0,
    854513.0 / 138.0,
    -236364091.0 / 2730.0,
    8553103.0 / 6.0,
];
