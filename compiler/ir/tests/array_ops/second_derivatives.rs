//! Second derivatives (gradients of gradients) of array operations.

use trainspec_ir::build::{Builder, Value};

use crate::support::graphs::{Feed, f64s, gradient, i32s, shaped};

/// For a linear map f: the gradient of Σ f(x)³ is fᵀ(3 f(x)²), and that of its inner product with v is fᵀ(6 f(x) f(v)).
/// Both are compared with values computed by hand.
fn check(
    x: &[f64],
    map: for<'g> fn(Value<'g>, Value<'g>) -> Value<'g>,
    [once, twice]: [&[f64]; 2],
) {
    let (b, feed) = (Builder::new("t"), Feed::default());
    let indices = feed.input(&b, i32s(&[3], &[2, 0, 2]));
    let x = feed.input(&b, f64s(&[x.len()], x));
    let y = map(x, indices);
    let grad = gradient(&b, y * y * y, x);
    assert_eq!(feed.f64s(&b, grad), once);
    let v = b.constant(crate::support::graphs::counting(&x.shape()));
    let second = gradient(&b, grad * v, x);
    assert_eq!(feed.f64s(&b, second), twice);
}

#[test]
fn slice_and_pad_are_each_others_gradients() {
    check(
        &[1.0, 2.0, 3.0, 4.0],
        |x, _| x.slice(&[1], &[2], &[2]),
        [&[0.0, 12.0, 0.0, 48.0], &[0.0, 24.0, 0.0, 96.0]],
    );
    check(
        &[1.0, 2.0],
        |x, _| x.pad(x.like(5.0), &[1], &[2], &[1]),
        [&[3.0, 12.0], &[6.0, 24.0]],
    );
}

#[test]
fn row_gathers_may_be_differentiated_twice() {
    check(
        &[1.0, 2.0, 3.0],
        |x, indices| x.take(indices),
        [&[3.0, 0.0, 54.0], &[6.0, 0.0, 108.0]],
    );
}

#[test]
fn row_scatters_may_be_differentiated_twice() {
    // f(x) is (x₁, 0, x₀ + x₂).
    check(
        &[1.0, 2.0, 3.0],
        |x, indices| x.builder().full(&shaped(&[3]), 0.0).scatter_add(indices, x),
        [&[48.0, 12.0, 48.0], &[96.0, 24.0, 96.0]],
    );
    // f(x) is (x₁, 0, x₂), but x₀ gets the cotangent of the overwritten row too.
    check(
        &[1.0, 2.0, 3.0],
        |x, indices| x.builder().full(&shaped(&[3]), 0.0).scatter_set(indices, x),
        [&[27.0, 12.0, 27.0], &[72.0, 24.0, 72.0]],
    );
}

#[test]
fn layout_operations_may_be_differentiated_twice() {
    check(
        &[1.0, 2.0],
        |x, _| {
            let b = x.builder();
            let wide = x.reshape(&[2, 1]).broadcast(&[2, 2]).transpose(&[1, 0]);
            let both = b.concat(&[wide, wide.reverse(&[0])], 1);
            let condition = both.greater(both.like(1.5));
            condition.select(both, both.like(0.0))
        },
        [&[0.0, 48.0], &[0.0, 96.0]],
    );
}
