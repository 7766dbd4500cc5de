//! Layout operations with static indices: slice, pad, cast, tile, where, range, split, concat, diagonal.

use trainspec_ir::build::{Builder, CallArg};
use trainspec_ir::ops::Arg;
use trainspec_ir::{DType, Tensor};

use crate::support::graphs::{
    Feed, bools, call, calls, counting, f64s, float, gradient, i32s, int, ints, pairs,
    weighted_gradient, word,
};

/// The indices of a Python slice of `n` elements.
fn python_slice(n: i64, begin: Option<i64>, end: Option<i64>, step: i64) -> Vec<i64> {
    let (min, max) = if step > 0 { (0, n) } else { (-1, n - 1) };
    let bound = |p: i64| if p < 0 { p + n } else { p }.clamp(min, max);
    let begin = begin.map_or(if step > 0 { min } else { max }, bound);
    let end = end.map_or(if step > 0 { max } else { min }, bound);
    let mut at = begin;
    let mut taken = Vec::new();
    while (step > 0 && at < end) || (step < 0 && at > end) {
        taken.push(at);
        at += step;
    }
    taken
}

#[test]
fn strided_slice_takes_what_python_takes() {
    let borders: Vec<Option<i64>> = (-6..=6).map(Some).chain([None]).collect();
    for n in [0, 1, 4] {
        for step in [-7, -3, -2, -1, 1, 2, 3, 7] {
            for begin in &borders {
                for end in &borders {
                    let (b, feed) = (Builder::new("t"), Feed::default());
                    let x = feed.input(&b, counting(&[n as usize, 2]));
                    let y = call(
                        &b,
                        "strided_slice",
                        &[
                            ("input", x.into()),
                            ("begin", ints(&[begin.unwrap_or(0)])),
                            ("end", ints(&[end.unwrap_or(0)])),
                            ("strides", ints(&[step])),
                            ("begin_mask", int(begin.is_none().into())),
                            ("end_mask", int(end.is_none().into())),
                        ],
                    );
                    let rows = python_slice(n, *begin, *end, step);
                    let pair = |i: &i64| [2 * i + 1, 2 * i + 2].map(|n| n as f64);
                    let expected: Vec<f64> = rows.iter().flat_map(pair).collect();
                    let what = format!("x[{begin:?}:{end:?}:{step}] of {n}");
                    assert_eq!(feed.f64s(&b, y), expected, "{what}");
                    let grad = weighted_gradient(&b, y, x);
                    let mut back = vec![0.0; n as usize * 2];
                    for (i, row) in rows.iter().enumerate() {
                        back[*row as usize * 2] = (2 * i + 1) as f64;
                        back[*row as usize * 2 + 1] = (2 * i + 2) as f64;
                    }
                    assert_eq!(feed.f64s(&b, grad), back, "the gradient of {what}");
                }
            }
        }
    }
}

#[test]
fn strided_slice_takes_ellipsis_new_axes_and_single_indices() {
    let (b, feed) = (Builder::new("t"), Feed::default());
    let x = feed.input(&b, counting(&[2, 3, 4]));
    // x[-1, newaxis, ..., ::-2]
    let y = call(
        &b,
        "strided_slice",
        &[
            ("input", x.into()),
            ("begin", ints(&[-1, 0, 0, 0])),
            ("end", ints(&[0, 0, 0, 0])),
            ("strides", ints(&[1, 1, 1, -2])),
            ("begin_mask", int(8)),
            ("end_mask", int(8)),
            ("ellipsis_mask", int(4)),
            ("new_axis_mask", int(2)),
            ("shrink_axis_mask", int(1)),
        ],
    );
    assert_eq!(y.shape(), [1, 3, 2]);
    assert_eq!(feed.f64s(&b, y), [16.0, 14.0, 20.0, 18.0, 24.0, 22.0]);
}

#[test]
fn pad_has_constant_reflect_and_symmetric_modes() {
    let padded = |mode: &str, pads: &[(i64, i64)], shape: &[usize]| {
        let (b, feed) = (Builder::new("t"), Feed::default());
        let x = feed.input(&b, counting(shape));
        let arguments = [
            ("tensor", x.into()),
            ("paddings", pairs(pads)),
            ("mode", word(mode)),
            ("constant_values", float(0.5)),
        ];
        let y = call(&b, "pad", &arguments);
        let grad = weighted_gradient(&b, y, x);
        (feed.f64s(&b, y), feed.f64s(&b, grad))
    };
    let padding = [(2, 1)];
    let (y, grad) = padded("constant", &padding, &[3]);
    assert_eq!(y, [0.5, 0.5, 1.0, 2.0, 3.0, 0.5]);
    assert_eq!(grad, [3.0, 4.0, 5.0]);
    let (y, grad) = padded("reflect", &padding, &[3]);
    assert_eq!(y, [3.0, 2.0, 1.0, 2.0, 3.0, 2.0]);
    assert_eq!(grad, [3.0, 2.0 + 4.0 + 6.0, 1.0 + 5.0]);
    let (y, grad) = padded("symmetric", &[(3, 3)], &[3]);
    assert_eq!(y, [3.0, 2.0, 1.0, 1.0, 2.0, 3.0, 3.0, 2.0, 1.0]);
    assert_eq!(grad, [3.0 + 4.0 + 9.0, 2.0 + 5.0 + 8.0, 1.0 + 6.0 + 7.0]);
    let (y, grad) = padded("constant", &[(1, 1), (0, 0)], &[0, 2]);
    assert_eq!(y, [0.5; 4]);
    assert_eq!(grad, []);
}

#[test]
fn the_padding_value_gets_the_gradient_of_the_padding() {
    let (b, feed) = (Builder::new("t"), Feed::default());
    let (x, value) = (
        feed.input(&b, counting(&[2])),
        feed.input(&b, f64s(&[], &[9.0])),
    );
    let y = x.pad(value, &[1], &[0], &[2]);
    assert_eq!(feed.f64s(&b, y), [9.0, 1.0, 9.0, 9.0, 2.0]);
    let grad = weighted_gradient(&b, y, value);
    assert_eq!(feed.f64s(&b, grad), [1.0 + 3.0 + 4.0]);
}

#[test]
fn cast_saturates_truncates_and_wraps() {
    let cast = |x: Tensor, to: DType| {
        let (b, feed) = (Builder::new("t"), Feed::default());
        let x = feed.input(&b, x);
        let y = call(
            &b,
            "cast",
            &[("x", x.into()), ("dtype", CallArg::Known(Arg::DType(to)))],
        );
        feed.run(&b, &[y]).expect("a run").remove(0)
    };
    let floats = f64s(&[6], &[-1.9, 300.0, -300.0, f64::NAN, f64::INFINITY, 0.0]);
    let bytes = cast(floats.clone(), DType::I8);
    assert_eq!(bytes.to_i64s(), [-1, 127, -128, 0, 127, 0]);
    assert_eq!(
        cast(floats.clone(), DType::U8).to_i64s(),
        [0, 255, 0, 0, 255, 0]
    );
    assert_eq!(cast(floats, DType::Bool).to_i64s(), [1, 1, 1, 1, 1, 0]);
    let integers = Tensor::new(&[2], vec![-1_i64, 257]);
    assert_eq!(cast(integers, DType::U8).to_i64s(), [255, 1]);
    // Via f64 it would be rounded twice, to 2^60.
    let large = Tensor::new(&[1], vec![(1_i64 << 60) + (1 << 36) + 1]);
    let expected = (1_i64 << 60) as f64 + (1_i64 << 37) as f64;
    assert_eq!(cast(large, DType::F32).to_f64s(), [expected]);
    let mask = bools(&[2], &[1, 0]);
    assert_eq!(cast(mask.clone(), DType::F16).to_f64s(), [1.0, 0.0]);
    assert_eq!(cast(mask, DType::I16).to_i64s(), [1, 0]);
}

#[test]
fn gradients_flow_through_casts_between_floats_only() {
    let (b, feed) = (Builder::new("t"), Feed::default());
    let x = feed.input(&b, f64s(&[2], &[0.1, 2.0]));
    let y = x.cast(DType::F32);
    let grad = gradient(&b, y * y, x);
    assert_eq!(grad.dtype(), DType::F64);
    assert_eq!(feed.f64s(&b, grad), [f64::from(0.1_f32 * 2.0), 4.0]);
    let z = x.cast(DType::I32).cast(DType::F64);
    assert!(b.gradients(&[z], &[x])[0].is_none());
}

#[test]
fn tile_and_broadcast_repeat_and_sum() {
    let (b, feed) = (Builder::new("t"), Feed::default());
    let x = feed.input(&b, counting(&[2, 1]));
    let y = call(&b, "tile", &[("x", x.into()), ("multiples", ints(&[2, 3]))]);
    let row = [1.0, 1.0, 1.0, 2.0, 2.0, 2.0];
    assert_eq!(feed.f64s(&b, y), [row, row].concat());
    let grad = weighted_gradient(&b, y, x);
    assert_eq!(feed.f64s(&b, grad), [6.0 + 24.0, 15.0 + 33.0]);
    let none = call(&b, "tile", &[("x", x.into()), ("multiples", ints(&[0, 3]))]);
    assert_eq!(none.shape(), [0, 3]);
    let grad = gradient(&b, none, x);
    assert_eq!(feed.f64s(&b, grad), [0.0, 0.0]);
    let wide = [("x", x.into()), ("shape", ints(&[2, 2, 3]))];
    let wide = call(&b, "broadcast_to", &wide);
    let grad = gradient(&b, wide, x);
    assert_eq!(feed.f64s(&b, grad), [6.0, 6.0]);
    let empty = [("x", x.into()), ("shape", ints(&[2, 0]))];
    let empty = call(&b, "broadcast_to", &empty);
    assert_eq!(feed.f64s(&b, empty), []);
    let grad = gradient(&b, empty, x);
    assert_eq!(feed.f64s(&b, grad), [0.0, 0.0]);
}

#[test]
fn where_selects_values_and_gradients() {
    let (b, feed) = (Builder::new("t"), Feed::default());
    let condition = feed.input(&b, bools(&[2, 2], &[1, 0, 0, 1]));
    let x = feed.input(&b, counting(&[2, 2]));
    let y = feed.input(&b, f64s(&[1], &[f64::NAN]));
    let z = call(
        &b,
        "where",
        &[
            ("condition", condition.into()),
            ("x", x.into()),
            ("y", y.into()),
        ],
    );
    let kept = feed.f64s(&b, z);
    assert_eq!((kept[0], kept[3]), (1.0, 4.0));
    assert!(kept[1].is_nan() && kept[2].is_nan());
    let grad = weighted_gradient(&b, z, x);
    assert_eq!(feed.f64s(&b, grad), [1.0, 0.0, 0.0, 4.0]);
    let grad = weighted_gradient(&b, z, y);
    assert_eq!(feed.f64s(&b, grad), [5.0]);
}

#[test]
fn range_accumulates_as_tensorflow_does() {
    let range = |start: CallArg<'static>, limit: CallArg<'static>, delta: CallArg<'static>, to| {
        let (b, feed) = (Builder::new("t"), Feed::default());
        let y = call(
            &b,
            "range",
            &[
                ("start", start),
                ("limit", limit),
                ("delta", delta),
                ("dtype", CallArg::Known(to)),
            ],
        );
        feed.f64s(&b, y)
    };
    let tenths = range(float(0.0), float(1.0), float(0.1), Arg::Absent);
    let mut sum = 0.0_f32;
    for tenth in &tenths {
        assert_eq!(*tenth, f64::from(sum));
        sum += 0.1;
    }
    assert_eq!(tenths.len(), 10);
    assert_eq!(
        range(int(3), int(-8), int(-3), Arg::Absent),
        [3.0, 0.0, -3.0, -6.0]
    );
    let down = range(float(0.0), float(-2.0), float(-1.0), Arg::DType(DType::F64));
    assert_eq!(down, [0.0, -1.0]);
    assert!(down[0].is_sign_positive());
    assert_eq!(range(int(3), int(3), int(1), Arg::Absent), []);
    let narrow = range(int(126), int(130), int(1), Arg::DType(DType::I8));
    assert_eq!(narrow, [126.0, 127.0, -128.0, -127.0]);
}

#[test]
fn split_and_concat_are_inverses() {
    let (b, feed) = (Builder::new("t"), Feed::default());
    let x = feed.input(&b, counting(&[2, 3]));
    let slices = calls(&b, "unstack", &[("value", x.into()), ("axis", int(1))]);
    let again = [("values", CallArg::Values(slices)), ("axis", int(-1))];
    let again = call(&b, "stack", &again);
    assert_eq!(feed.f64s(&b, again), feed.f64s(&b, x));
    let grad = weighted_gradient(&b, again, x);
    assert_eq!(feed.f64s(&b, grad), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let sizes = ints(&[0, -1, 1]);
    let pieces = calls(
        &b,
        "split",
        &[
            ("value", x.into()),
            ("num_or_size_splits", sizes),
            ("axis", int(1)),
        ],
    );
    let shapes: Vec<Vec<usize>> = pieces.iter().map(|p| p.shape()).collect();
    assert_eq!(shapes, [[2, 0], [2, 2], [2, 1]]);
    let permuted = [pieces[2], pieces[0], pieces[1]].to_vec();
    let permuted = [("values", CallArg::Values(permuted)), ("axis", int(1))];
    let permuted = call(&b, "concat", &permuted);
    assert_eq!(feed.f64s(&b, permuted), [3.0, 1.0, 2.0, 6.0, 4.0, 5.0]);
    let grad = weighted_gradient(&b, permuted, x);
    assert_eq!(feed.f64s(&b, grad), [2.0, 3.0, 1.0, 5.0, 6.0, 4.0]);
}

#[test]
fn the_diagonal_may_have_several_dimensions() {
    let (b, feed) = (Builder::new("t"), Feed::default());
    let x = feed.input(&b, counting(&[2, 3, 2, 3]));
    let y = call(&b, "diag_part", &[("x", x.into())]);
    assert_eq!(y.shape(), [2, 3]);
    let expected: Vec<f64> = (0..6).map(|i| f64::from(i * 7 + 1)).collect();
    assert_eq!(feed.f64s(&b, y), expected);
    let empty = feed.input(&b, counting(&[0, 0]));
    let none = call(&b, "diag_part", &[("x", empty.into())]);
    assert_eq!(feed.f64s(&b, none), []);
}

#[test]
fn add_n_wraps_integers() {
    let (b, feed) = (Builder::new("t"), Feed::default());
    let x = feed.input(&b, i32s(&[1], &[i32::MAX]));
    let inputs = CallArg::Values(vec![x, x, x]);
    let sum = call(&b, "add_n", &[("inputs", inputs)]);
    let expected = i32::MAX.wrapping_mul(3);
    assert_eq!(feed.f64s(&b, sum), [f64::from(expected)]);
}

#[test]
fn empty_tensors_have_empty_results_and_gradients() {
    let (b, feed) = (Builder::new("t"), Feed::default());
    let x = feed.input(&b, counting(&[2, 0, 3]));
    let moved = [
        call(&b, "transpose", &[("x", x.into())]),
        call(&b, "reverse", &[("x", x.into()), ("axis", ints(&[0, 1]))]),
        call(&b, "reshape", &[("x", x.into()), ("shape", ints(&[0, 7]))]),
        call(
            &b,
            "slice",
            &[
                ("input", x.into()),
                ("begin", ints(&[1, 0, 3])),
                ("size", ints(&[1, 0, 0])),
            ],
        ),
        call(
            &b,
            "concat",
            &[("values", CallArg::Values(vec![x, x])), ("axis", int(1))],
        ),
    ];
    for y in moved {
        assert_eq!(feed.f64s(&b, y), []);
        let grad = gradient(&b, y, x);
        assert_eq!(grad.shape(), [2, 0, 3]);
        assert_eq!(feed.f64s(&b, grad), []);
    }
}
