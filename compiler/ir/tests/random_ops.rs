//! Random sampling and its special functions (erfinv, polygamma), fake quantization, and orthogonal matrices.

use trainspec_ir::build::{Builder, CallArg, Value};
use trainspec_ir::graph::Type;
use trainspec_ir::ops::Arg;
use trainspec_ir::philox::Key;
use trainspec_ir::{DType, Tensor};

use crate::support::gradcheck;
use crate::support::graphs::{Feed, call, f64s, float, gradient, int, ints};

const SEED: i64 = 7;

fn dtype<'g>(dtype: DType) -> CallArg<'g> {
    CallArg::Known(Arg::DType(dtype))
}

/// The samples of an operation of the site `site`.
fn draw(op: &str, site: &str, shape: &[i64], ty: DType, bounds: Option<[f64; 2]>) -> Tensor {
    let (b, feed) = (Builder::new("t"), Feed::default());
    b.randomness(b.int(DType::I64, SEED), &[b.int(DType::I64, 3)]);
    let bounds = bounds.map(|bounds| bounds.map(|x| CallArg::Value(b.scalar(ty, x))));
    let absent = || CallArg::Known(Arg::Absent);
    let [p, q] = bounds.unwrap_or([absent(), absent()]);
    let op = trainspec_ir::ops::find(op).unwrap();
    let y = b.call(op, &[ints(shape), p, q, dtype(ty)], site).unwrap()[0];
    feed.run(&b, &[y]).unwrap().remove(0)
}

#[test]
fn keys_are_those_of_the_generator() {
    let (b, feed) = (Builder::new("t"), Feed::default());
    let (seed, step) = (b.int(DType::I64, SEED), b.int(DType::I64, -2));
    b.randomness(seed, &[step]);
    let key = feed.run(&b, &[b.key("model/dropout")]).unwrap();
    let expected = Key::new(SEED, "model/dropout").fold(-2);
    assert_eq!(key[0].to_i64s(), [expected.0 as i64]);
}

#[test]
fn elements_take_the_words_of_the_stream_in_order() {
    let key = Key(0x0123_4567_89ab_cdef);
    let (b, feed) = (Builder::new("t"), Feed::default());
    let bits = b.int(DType::I64, key.0 as i64);
    let words: Vec<u32> = (0..3).flat_map(|i| key.block(i)).collect();
    let drawn =
        |dtype, shape: &[usize]| feed.f64s(&b, b.random_uniform(bits, &Type::new(dtype, shape)));
    let top = |word: u32, digits: i32| {
        let k = word >> (32 - digits);
        (f64::from(k) + 0.5) / 2_f64.powi(digits)
    };
    for (dtype, digits) in [(DType::F32, 23), (DType::F16, 10), (DType::Bf16, 7)] {
        let expected: Vec<f64> = words[..6].iter().map(|w| top(*w, digits)).collect();
        assert_eq!(drawn(dtype, &[2, 3]), expected);
    }
    let pair = |w: &[u32]| {
        let k = (u64::from(w[0]) | u64::from(w[1]) << 32) >> 12;
        (k as f64 + 0.5) / 2_f64.powi(52)
    };
    let expected: Vec<f64> = words.chunks(2).take(5).map(pair).collect();
    assert_eq!(drawn(DType::F64, &[5]), expected);
    assert_eq!(drawn(DType::F64, &[0, 5]), [0.0; 0]);
    // A shorter sample is a prefix of a longer one.
    assert_eq!(drawn(DType::F32, &[11])[..6], drawn(DType::F32, &[6]));
}

#[test]
fn samples_differ_by_site_and_are_reproducible() {
    let at = |site: &str| draw("random_normal", site, &[4], DType::F32, None);
    assert_eq!(at("a"), at("a"));
    assert_ne!(at("a"), at("b"));
}

/// Mean and variance, and the fraction below 0.
fn summary(x: &[f64]) -> [f64; 3] {
    let n = x.len() as f64;
    let mean = x.iter().sum::<f64>() / n;
    let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
    let below = x.iter().filter(|x| **x < 0.0).count() as f64 / n;
    [mean, variance, below]
}

fn near(found: [f64; 3], expected: [f64; 3]) {
    for (f, e) in found.iter().zip(expected) {
        assert!((f - e).abs() < 0.02, "{found:?} for {expected:?}");
    }
}

#[test]
fn distributions_have_their_moments() {
    for ty in [DType::F32, DType::F64, DType::F16, DType::Bf16] {
        let x = draw("random_uniform", "s", &[100, 400], ty, None).to_f64s();
        near(summary(&x), [0.5, 1.0 / 12.0, 0.0]);
        assert!(x.iter().all(|x| 0.0 < *x && *x < 1.0));
        let x = draw("random_uniform", "s", &[40000], ty, Some([-2.0, 1.0])).to_f64s();
        near(summary(&x), [-0.5, 0.75, 2.0 / 3.0]);
        assert!(x.iter().all(|x| -2.0 <= *x && *x < 1.0));
        let x = draw("random_normal", "s", &[40000], ty, None).to_f64s();
        near(summary(&x), [0.0, 1.0, 0.5]);
        assert!(x.iter().any(|x| x.abs() > 3.5) && x.iter().all(|x| x.abs() < 6.0));
        let x = draw("random_normal", "s", &[40000], ty, Some([0.5, 0.5])).to_f64s();
        near(summary(&x), [0.5, 0.25, 0.1587]);
        let x = draw("truncated_normal", "s", &[40000], ty, None).to_f64s();
        near(summary(&x), [0.0, 0.7737, 0.5]);
        assert!(x.iter().any(|x| x.abs() > 1.95) && x.iter().all(|x| x.abs() <= 2.0));
        let x = draw("truncated_normal", "s", &[40000], ty, Some([1.0, 0.5])).to_f64s();
        near(summary(&x), [1.0, 0.1934, 0.0]);
        assert!(x.iter().all(|x| 0.0 <= *x && *x <= 2.0));
    }
}

#[test]
fn the_upper_bound_is_exclusive() {
    // One number in 128 would be rounded to it.
    let x = draw(
        "random_uniform",
        "s",
        &[4000],
        DType::Bf16,
        Some([1.0, 2.0]),
    );
    assert!(x.to_f64s().iter().all(|x| (1.0..2.0).contains(x)));
    let x = draw("random_uniform", "s", &[4], DType::F32, Some([3.0, 3.0]));
    assert_eq!(x.to_f64s(), [3.0; 4]);
}

#[test]
fn gradients_flow_to_the_parameters_of_a_distribution() {
    let (b, feed) = (Builder::new("t"), Feed::default());
    b.randomness(b.int(DType::I64, SEED), &[]);
    let [mean, stddev] = [1.0, 2.0].map(|x| feed.input(&b, f64s(&[], &[x])));
    let named = [
        ("shape", ints(&[3])),
        ("mean", mean.into()),
        ("stddev", stddev.into()),
    ];
    let y = call(&b, "random_normal", &named);
    assert_eq!(feed.f64s(&b, gradient(&b, y, mean)), [3.0]);
    let grad = feed.f64s(&b, gradient(&b, y, stddev))[0];
    let sum: f64 = feed.f64s(&b, y).iter().sum();
    assert!((3.0 + 2.0 * grad - sum).abs() < 1e-12);
}

/// Values of a function of one number, in f64.
fn values(x: &[f64], f: impl for<'g> Fn(Value<'g>) -> Value<'g>) -> Vec<f64> {
    let (b, feed) = (Builder::new("t"), Feed::default());
    let y = f(feed.input(&b, f64s(&[x.len()], x)));
    feed.f64s(&b, y)
}

fn close(found: &[f64], expected: &[f64]) {
    for (f, e) in found.iter().zip(expected) {
        assert!((f - e).abs() <= 4e-15 * e.abs(), "{f} for {e}");
    }
}

#[test]
fn erfinv_has_published_values() {
    let x = [
        0.1,
        -0.5,
        0.85,
        0.9,
        -0.999,
        1.0 - 2.0_f64.powi(-23),
        1.0 - 2.0_f64.powi(-53),
        1e-300,
    ];
    let expected = [
        0.08885599049425769,
        -0.4769362762044699,
        1.0179024648320276,
        1.1630871536766743,
        -2.3267537655135246,
        3.7439211627767994,
        5.8635847487551676,
        8.86226925452758e-301,
    ];
    close(&values(&x, |x| x.erfinv()), &expected);
    let ends = values(&[1.0, -1.0, 0.0, 1.5, f64::NAN], |x| x.erfinv());
    assert_eq!(ends[..3], [f64::INFINITY, -f64::INFINITY, 0.0]);
    assert!(ends[3].is_nan() && ends[4].is_nan());
    gradcheck::check(&f64s(&[3], &[0.1, -0.7, 0.9]), |x| x.erfinv());
}

#[test]
fn polygamma_has_published_values() {
    let x = [0.5, 1.0, 3.7, 25.0, 1e6, -0.3, -4.75];
    let expected: [(usize, [f64; 7]); 4] = [
        (
            0,
            [
                -1.9635100260214235,
                -0.5772156649015329,
                1.1671535393615113,
                3.198742512851974,
                13.815510057964191,
                2.113309779635399,
                -1.4818622825218566,
            ],
        ),
        (
            1,
            [
                4.934802200544679,
                1.6449340668482264,
                0.3100378576700383,
                0.04081066325722558,
                1.0000005000001667e-06,
                13.945160267805722,
                19.549301390239464,
            ],
        ),
        (
            2,
            [
                -16.82879664423432,
                -2.4041138063191885,
                -0.09539530872855403,
                -0.001665279318422468,
                -1.0000010000005e-12,
                67.63908119988317,
                -124.0610655213093,
            ],
        ),
        (
            5,
            [
                7691.113548602436,
                122.0811674381339,
                0.06393975390203979,
                2.7131757700038325e-06,
                2.400006000006e-29,
                165634.3818520859,
                492231.2613510495,
            ],
        ),
    ];
    for (order, expected) in expected {
        close(&values(&x, |x| x.polygamma(order)), &expected);
    }
    close(&values(&x, |x| x.digamma()), &expected[0].1);
    let poles = [0.0, -1.0, -7.0, -1e300];
    assert_eq!(values(&poles, |x| x.polygamma(1)), [f64::INFINITY; 4]);
    for order in [0, 2] {
        let found = values(&poles, |x| x.polygamma(order));
        assert!(found.iter().all(|x| x.is_nan()));
    }
    let far = [f64::INFINITY];
    assert_eq!(values(&far, |x| x.digamma()), [f64::INFINITY]);
    assert_eq!(values(&far, |x| x.polygamma(3)), [0.0]);
    let lost = values(&[f64::NEG_INFINITY, f64::NAN], |x| x.digamma());
    assert!(lost.iter().all(|x| x.is_nan()));
    gradcheck::check(&f64s(&[3], &[0.7, 2.5, -1.4]), |x| x.lgamma());
}

#[test]
fn fake_quantization_is_tensorflows() {
    let quantized = |x: &[f32], min: f64, max: f64, bits: i64, narrow: bool| {
        let (b, feed) = (Builder::new("t"), Feed::default());
        let x = feed.input(&b, Tensor::new(&[x.len()], x.to_vec()));
        let named = [
            ("inputs", x.into()),
            ("min", float(min)),
            ("max", float(max)),
            ("num_bits", int(bits)),
            ("narrow_range", CallArg::Known(Arg::Bool(narrow))),
        ];
        let y = call(&b, "fake_quant_with_min_max_args", &named);
        let values = feed.run(&b, &[y]).unwrap().remove(0);
        (
            values.values::<f32>().unwrap().to_vec(),
            feed.f64s(&b, gradient(&b, y, x)),
        )
    };
    // Of TensorFlow 2.21.
    let x = [2.83, 1.58, -2.278, 6.202, -3.445, 3.853, -6.017];
    let (values, grad) = quantized(&x, -6.0, 6.0, 8, false);
    assert_eq!(
        values,
        [
            2.8235295, 1.6, -2.2588236, 5.9764705, -3.4352942, 3.8588235, -6.0235295
        ]
    );
    assert_eq!(grad, [1.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0]);
    let x = [-1.199, 1.312, 2.543, -1.231, -0.862, 0.786];
    let (values, grad) = quantized(&x, -1.205, 1.916, 4, true);
    assert_eq!(
        values,
        [
            -1.1146429, 1.3375714, 2.0063572, -1.1146429, -0.8917143, 0.8917143
        ]
    );
    assert_eq!(grad, [0.0, 1.0, 0.0, 0.0, 1.0, 1.0]);
    assert_eq!(quantized(&[0.0], -1.03, 1.048, 7, false).0, [0.0]);
}

#[test]
fn bounds_of_fake_quantization_have_gradients() {
    let (b, feed) = (Builder::new("t"), Feed::default());
    let rows = [-2.367, 2.312, 5.0, 2.986, -0.163, -5.0, -0.291, 0.25, 0.5];
    let x = feed.input(&b, f64s(&[3, 3], &rows));
    let min = feed.input(&b, f64s(&[3], &[-1.289, -1.5, 0.0]));
    let max = feed.input(&b, f64s(&[3], &[1.513, 0.7, 0.0]));
    let named = [
        ("inputs", x.into()),
        ("min", min.into()),
        ("max", max.into()),
        ("num_bits", int(7)),
        ("narrow_range", CallArg::Known(Arg::Bool(true))),
    ];
    let y = call(&b, "fake_quant_with_min_max_vars_per_channel", &named);
    let expected = [
        -1.2898096,
        0.6984127,
        0.0,
        1.5121906,
        -0.15714286,
        0.0,
        -0.28909525,
        0.24444446,
        0.0,
    ];
    for (f, e) in feed.f64s(&b, y).iter().zip(expected) {
        assert!((f - e).abs() < 1e-6, "{f} for {e}");
    }
    let grad = |x| feed.f64s(&b, gradient(&b, y, x));
    assert_eq!(grad(x), [0.0, 0.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0]);
    assert_eq!(grad(min), [1.0, 0.0, 0.0]);
    assert_eq!(grad(max), [1.0, 1.0, 0.0]);
}

#[test]
fn orthogonal_matrices_have_unit_rows_or_columns() {
    let (b, feed) = (Builder::new("t"), Feed::default());
    b.randomness(b.int(DType::I64, SEED), &[]);
    for (rows, columns) in [(4, 4), (5, 3), (3, 5), (1, 1), (0, 3), (2, 0), (40, 30)] {
        let x = call(
            &b,
            "random_normal",
            &[
                ("shape", ints(&[rows, columns])),
                ("dtype", dtype(DType::F64)),
            ],
        );
        let q = call(&b, "orthogonalize", &[("x", x.into())]);
        let wide = columns > rows;
        // Qᵀ Q, or Q Qᵀ, is the identity.
        let square = feed.f64s(&b, q.matmul_with(q, !wide, wide));
        let n = rows.min(columns) as usize;
        for (i, found) in square.iter().enumerate() {
            let expected = if i / n.max(1) == i % n.max(1) {
                1.0
            } else {
                0.0
            };
            assert!((found - expected).abs() < 1e-14, "{found} for {expected}");
        }
        // R = Qᵀ x, or its transpose, is triangular with a positive diagonal.
        let r = match wide {
            false => q.matmul_with(x, true, false),
            true => q.matmul_with(x, false, true),
        };
        for (i, found) in feed.f64s(&b, r).iter().enumerate() {
            let (row, column) = (i / n, i % n);
            assert!(column != row || *found > 0.0);
            assert!(column >= row || found.abs() < 1e-13);
        }
    }
}

#[test]
fn rank_deficient_matrices_are_orthogonalized_too() {
    let (b, feed) = (Builder::new("t"), Feed::default());
    for x in [[0.0; 4], [1.0, 2.0, 2.0, 4.0]] {
        let x = feed.input(&b, f64s(&[2, 2], &x));
        let q = call(&b, "orthogonalize", &[("x", x.into())]);
        let square = feed.f64s(&b, q.matmul_with(q, true, false));
        for (found, expected) in square.iter().zip([1.0, 0.0, 0.0, 1.0]) {
            assert!((found - expected).abs() < 1e-15);
        }
    }
    let x = feed.input(&b, f64s(&[2, 1], &[3.0, 4.0]));
    let q = call(&b, "orthogonalize", &[("x", x.into())]);
    let found = feed.f64s(&b, q);
    assert!((found[0] - 0.6).abs() < 1e-15 && (found[1] - 0.8).abs() < 1e-15);
}
