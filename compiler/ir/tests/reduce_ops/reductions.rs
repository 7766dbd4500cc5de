//! Reductions over axes and cumulative scans.

use trainspec_ir::build::{Builder, CallArg};
use trainspec_ir::graph::Type;
use trainspec_ir::ops::Arg;
use trainspec_ir::{DType, Tensor};

use crate::support::gradcheck;
use crate::support::graphs::{
    Feed, bools, call, counting, f64s, gradient, i32s, int, ints, weighted_gradient,
};

const NAN: f64 = f64::NAN;
const INF: f64 = f64::INFINITY;

/// The result of a reduction of `x`.
fn reduced(op: &str, x: Tensor, axis: Option<&[i64]>, keepdims: bool) -> Tensor {
    let (b, feed) = (Builder::new("t"), Feed::default());
    let x = feed.input(&b, x);
    let axis = axis.map_or(CallArg::Known(Arg::Absent), ints);
    let keepdims = CallArg::Known(Arg::Bool(keepdims));
    let named = [("x", x.into()), ("axis", axis), ("keepdims", keepdims)];
    let y = call(&b, op, &named);
    feed.run(&b, &[y]).expect("a run").remove(0)
}

fn same(found: &Tensor, expected: &Tensor) {
    assert_eq!(found.ty(), expected.ty());
    let pairs = found.to_f64s().into_iter().zip(expected.to_f64s());
    for (f, e) in pairs {
        assert!(f == e || (f.is_nan() && e.is_nan()), "{found} {expected}");
    }
}

#[test]
fn axes_go_or_stay_in_size_1() {
    let x = || counting(&[2, 3, 2]);
    let all = reduced("reduce_sum", x(), None, false);
    same(&all, &f64s(&[], &[78.0]));
    let kept = reduced("reduce_sum", x(), None, true);
    same(&kept, &f64s(&[1, 1, 1], &[78.0]));
    let outer = reduced("reduce_sum", x(), Some(&[-1, 0]), false);
    same(&outer, &f64s(&[3], &[18.0, 26.0, 34.0]));
    let middle = reduced("reduce_prod", x(), Some(&[1]), true);
    same(&middle, &f64s(&[2, 1, 2], &[15.0, 48.0, 693.0, 960.0]));
    let none = reduced("reduce_max", x(), Some(&[]), false);
    same(&none, &x());
    let mean = reduced("reduce_mean", x(), Some(&[2, 1]), true);
    same(&mean, &f64s(&[2, 1, 1], &[3.5, 9.5]));
}

#[test]
fn empty_reductions_give_the_identity_element() {
    let empty = || f64s(&[0, 2], &[]);
    for (op, expected) in [
        ("reduce_sum", 0.0),
        ("reduce_prod", 1.0),
        ("reduce_max", -INF),
        ("reduce_min", INF),
        ("reduce_mean", NAN),
    ] {
        let y = reduced(op, empty(), Some(&[0]), false);
        same(&y, &f64s(&[2], &[expected; 2]));
        let y = reduced(op, empty(), Some(&[1]), false);
        same(&y, &f64s(&[0], &[]));
    }
    let ints = |dtype| Tensor::zeros(&Type::new(dtype, &[0]));
    for (op, dtype, expected) in [
        ("reduce_max", DType::I8, -128),
        ("reduce_max", DType::U8, 0),
        ("reduce_max", DType::I64, i64::MIN),
        ("reduce_min", DType::I16, 32767),
        ("reduce_min", DType::I64, i64::MAX),
        ("reduce_sum", DType::I32, 0),
        ("reduce_prod", DType::I32, 1),
    ] {
        assert_eq!(
            reduced(op, ints(dtype), None, false).to_i64s(),
            [expected],
            "{op}"
        );
    }
    let none = || bools(&[0], &[]);
    assert_eq!(
        reduced("reduce_any", none(), None, false).to_bools(),
        [false]
    );
    assert_eq!(
        reduced("reduce_all", none(), None, false).to_bools(),
        [true]
    );
}

#[test]
fn integers_wrap_around_and_16_bit_floats_are_rounded_once() {
    let bytes = Tensor::new(&[3], vec![100_i8, 100, 100]);
    assert_eq!(reduced("reduce_sum", bytes, None, false).to_i64s(), [44]);
    let large = Tensor::new(&[2], vec![i64::MAX, 2]);
    let sum = reduced("reduce_sum", large.clone(), None, false);
    assert_eq!(sum.to_i64s(), [i64::MIN + 1]);
    assert_eq!(reduced("reduce_prod", large, None, false).to_i64s(), [-2]);
    // With an f32 accumulator the small terms would be lost.
    let floats = Tensor::new(&[3], vec![16777216.0_f32, 1.0, 1.0]);
    assert_eq!(
        reduced("reduce_sum", floats, None, false).to_f64s(),
        [16777218.0]
    );
    // Neither the sum nor the number of elements is representable in f16.
    let ty = Type::new(DType::F16, &[70000]);
    let many = Tensor::from_f64s(&ty, std::iter::repeat_n(2.0, 70000));
    assert_eq!(reduced("reduce_mean", many, None, false).to_f64s(), [2.0]);
}

#[test]
fn nan_is_propagated_by_max_but_not_by_argmax() {
    let x = || f64s(&[2, 3], &[1.0, NAN, 3.0, NAN, 2.0, -INF]);
    for op in ["reduce_max", "reduce_min", "reduce_sum", "reduce_prod"] {
        let y = reduced(op, x(), Some(&[1]), false);
        same(&y, &f64s(&[2], &[NAN, NAN]));
    }
    let (b, feed) = (Builder::new("t"), Feed::default());
    let x = feed.input(&b, x());
    let search = |op: &str, axis: i64| {
        let y = call(&b, op, &[("x", x.into()), ("axis", int(axis))]);
        feed.f64s(&b, y)
    };
    assert_eq!(search("argmax", 1), [2.0, 1.0]);
    assert_eq!(search("argmin", -1), [0.0, 2.0]);
    assert_eq!(search("argmax", 0), [0.0, 1.0, 0.0]);
    let lost = feed.input(&b, f64s(&[3], &[NAN, NAN, NAN]));
    let y = call(&b, "argmax", &[("x", lost.into())]);
    assert_eq!(feed.f64s(&b, y), [0.0]);
}

#[test]
fn argmax_and_argmin_find_the_first_of_ties() {
    let (b, feed) = (Builder::new("t"), Feed::default());
    let floats = feed.input(&b, f64s(&[4], &[-INF, -INF, -INF, -INF]));
    let ints = feed.input(&b, i32s(&[5], &[-3, 7, -9, 7, -9]));
    let find = |op: &str, x| feed.f64s(&b, call(&b, op, &[("x", CallArg::Value(x))]));
    assert_eq!(find("argmax", floats), [0.0]);
    assert_eq!(find("argmin", floats), [0.0]);
    assert_eq!(find("argmax", ints), [1.0]);
    assert_eq!(find("argmin", ints), [2.0]);
}

#[test]
fn booleans_are_reduced_by_all_and_any() {
    let x = || bools(&[2, 3], &[1, 0, 1, 1, 1, 1]);
    let any = reduced("reduce_any", x(), Some(&[0]), false);
    assert_eq!(any.to_bools(), [true, true, true]);
    let all = reduced("reduce_all", x(), Some(&[1]), true);
    assert_eq!(
        (all.shape(), all.to_bools()),
        (&[2, 1][..], vec![false, true])
    );
}

#[test]
fn ties_share_the_gradient() {
    let (b, feed) = (Builder::new("t"), Feed::default());
    let x = feed.input(&b, f64s(&[2, 3], &[1.0, 3.0, 3.0, 2.0, 2.0, 2.0]));
    let max = weighted_gradient(&b, x.max(&[1]), x);
    let third = 2.0 / 3.0;
    assert_eq!(feed.f64s(&b, max), [0.0, 0.5, 0.5, third, third, third]);
    let min = weighted_gradient(&b, x.min(&[1]), x);
    assert_eq!(feed.f64s(&b, min), [1.0, 0.0, 0.0, third, third, third]);
    let all = gradient(&b, x.max(&[0, 1]), x);
    assert_eq!(feed.f64s(&b, all), [0.0, 0.5, 0.5, 0.0, 0.0, 0.0]);
}

#[test]
fn products_have_gradients_where_elements_are_zero() {
    let x = f64s(
        &[2, 2, 3],
        &[2.0, 0.0, 3.0, 0.0, 0.0, 4.0, 1.5, -2.0, 0.5, -1.0, 2.0, 3.0],
    );
    let (b, feed) = (Builder::new("t"), Feed::default());
    let one = feed.input(&b, x.clone());
    let grad = weighted_gradient(&b, one.prod(&[2]), one);
    assert_eq!(
        feed.f64s(&b, grad),
        [
            0.0, 6.0, 0.0, 0.0, 0.0, 0.0, -3.0, 2.25, -9.0, 24.0, -12.0, -8.0
        ]
    );
    gradcheck::check(&x, |x| x.prod(&[2]));
    gradcheck::check(&x, |x| x.prod(&[0, 2]));
    gradcheck::check(&x, |x| x.prod(&[0, 1]));
}

#[test]
fn gradients_of_reductions_agree_with_finite_differences() {
    let x = f64s(&[2, 3], &[1.0, -2.0, 0.5, 3.0, 0.25, -1.5]);
    gradcheck::check(&x, |x| (x * x).sum(&[0]).square());
    gradcheck::check(&x, |x| (x * x * x).mean(&[1]));
    gradcheck::check(&x, |x| x.square().max(&[1]));
    gradcheck::check(&x, |x| x.square().min(&[0, 1]));
    for (exclusive, reverse) in [(false, false), (false, true), (true, false), (true, true)] {
        gradcheck::check(&x, |x| x.square().cumsum(1, exclusive, reverse));
    }
}

#[test]
fn scans_run_in_both_directions() {
    let (b, feed) = (Builder::new("t"), Feed::default());
    let x = feed.input(&b, f64s(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 0.0, 6.0]));
    let ints = feed.input(&b, Tensor::new(&[3], vec![100_i8, 100, 1]));
    let run = |op: &str, x, axis: i64, exclusive: bool, reverse: bool| {
        let [exclusive, reverse] = [exclusive, reverse].map(|f| CallArg::Known(Arg::Bool(f)));
        let named = [
            ("x", CallArg::Value(x)),
            ("axis", int(axis)),
            ("exclusive", exclusive),
            ("reverse", reverse),
        ];
        feed.f64s(&b, call(&b, op, &named))
    };
    let sums = |exclusive, reverse| run("cumsum", x, 1, exclusive, reverse);
    assert_eq!(sums(false, false), [1.0, 3.0, 6.0, 4.0, 4.0, 10.0]);
    assert_eq!(sums(true, false), [0.0, 1.0, 3.0, 0.0, 4.0, 4.0]);
    assert_eq!(sums(false, true), [6.0, 5.0, 3.0, 10.0, 6.0, 6.0]);
    assert_eq!(sums(true, true), [5.0, 3.0, 0.0, 6.0, 6.0, 0.0]);
    let down = run("cumsum", x, -2, false, false);
    assert_eq!(down, [1.0, 2.0, 3.0, 5.0, 2.0, 9.0]);
    assert_eq!(run("cumsum", ints, 0, false, false), [100.0, -56.0, -55.0]);
    let products = |exclusive, reverse| run("cumprod", x, 1, exclusive, reverse);
    assert_eq!(products(false, false), [1.0, 2.0, 6.0, 4.0, 0.0, 0.0]);
    assert_eq!(products(true, false), [1.0, 1.0, 2.0, 1.0, 4.0, 0.0]);
    assert_eq!(products(false, true), [6.0, 6.0, 3.0, 0.0, 0.0, 6.0]);
    assert_eq!(products(true, true), [6.0, 3.0, 1.0, 0.0, 6.0, 1.0]);
    assert_eq!(run("cumprod", ints, 0, false, false), [100.0, 16.0, 16.0]);
    let none = feed.input(&b, f64s(&[0, 2], &[]));
    assert_eq!(run("cumsum", none, 0, true, true), [0.0; 0]);
    assert_eq!(run("cumsum", none, 1, true, true), [0.0; 0]);
    assert_eq!(run("cumprod", none, 0, true, true), [0.0; 0]);
    assert_eq!(run("cumprod", none, 1, true, true), [0.0; 0]);
}

#[test]
fn cumulative_products_have_gradients_where_elements_are_zero() {
    let x = f64s(&[2, 4], &[2.0, 0.0, 3.0, -1.0, 0.0, 0.0, 4.0, 1.5]);
    for (exclusive, reverse) in [(false, false), (true, true)] {
        gradcheck::check(&x, |x| {
            let flag = |f| CallArg::Known(Arg::Bool(f));
            let named = [
                ("x", x.into()),
                ("axis", int(1)),
                ("exclusive", flag(exclusive)),
                ("reverse", flag(reverse)),
            ];
            call(x.builder(), "cumprod", &named)
        });
    }
}
