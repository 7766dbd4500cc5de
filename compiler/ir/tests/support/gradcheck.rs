//! Gradient check: first and second derivatives against central differences.

use trainspec_ir::Tensor;
use trainspec_ir::build::{Builder, Value};

use crate::support::graphs::{Feed, counting, gradient};

/// Compares the gradient of Σ w f(x), w being 1, 2, 3, …, with central differences, and then the gradient of Σ w · gradient.
pub(crate) fn check(x: &Tensor, f: impl for<'g> Fn(Value<'g>) -> Value<'g>) {
    for twice in [false, true] {
        let evaluate = |point: &[f64], differentiate: bool| {
            let (b, feed) = (Builder::new("t"), Feed::default());
            let x = feed.input(&b, Tensor::new(x.shape(), point.to_vec()));
            let weighted = |y: Value<'_>| b.constant(counting(&y.shape())).id();
            let mut y = f(x);
            y = y * b.value(weighted(y));
            if twice {
                y = gradient(&b, y, x);
                y = y * b.value(weighted(y));
            }
            let y = y.sum(&y.axes());
            match differentiate {
                true => feed.f64s(&b, gradient(&b, y, x)),
                false => feed.f64s(&b, y),
            }
        };
        let point = x.to_f64s();
        for (i, found) in evaluate(&point, true).iter().enumerate() {
            let step = |by: f64| {
                let mut moved = point.clone();
                moved[i] += by;
                evaluate(&moved, false)[0]
            };
            let expected = (step(1e-4) - step(-1e-4)) / 2e-4;
            let near = (found - expected).abs() <= 1e-5 * (1.0 + expected.abs());
            assert!(near, "x[{i}], twice: {twice}: {found} for {expected}");
        }
    }
}
