//! Counted (bounded dynamic) dimensions: elements past the count are never read, not even by gradients.

use trainspec_ir::build::{Builder, CallArg};
use trainspec_ir::ops::Arg;

use crate::support::graphs::{Feed, bools, call, f64s, i32s, int, ints, seeded, word};

const POISON: f64 = f64::NAN;

#[test]
fn reductions_ignore_elements_past_the_count() {
    let (b, feed) = (Builder::new("t"), Feed::default());
    let rows = [1.0, 2.0, 3.0, 5.0, POISON, POISON];
    let x = feed.counted(&b, f64s(&[3, 2], &rows), 2);
    let none = feed.counted(&b, f64s(&[2, 1], &[POISON, POISON]), 0);
    for (op, expected, grad, nothing) in [
        ("reduce_sum", [4.0, 7.0], [1.0, 1.0, 1.0, 1.0], 0.0),
        ("reduce_mean", [2.0, 3.5], [0.5, 0.5, 0.5, 0.5], POISON),
        (
            "reduce_max",
            [3.0, 5.0],
            [0.0, 0.0, 1.0, 1.0],
            -f64::INFINITY,
        ),
        (
            "reduce_min",
            [1.0, 2.0],
            [1.0, 1.0, 0.0, 0.0],
            f64::INFINITY,
        ),
        ("reduce_prod", [3.0, 10.0], [3.0, 5.0, 1.0, 2.0], 1.0),
    ] {
        let reduce = |x| call(&b, op, &[("x", CallArg::Value(x)), ("axis", ints(&[0]))]);
        assert_eq!(feed.f64s(&b, reduce(x)), expected, "{op}");
        let found = feed.f64s(&b, seeded(&b, reduce(x), x, &[1.0, 1.0]));
        assert_eq!(found[..4], grad, "{op}");
        assert_eq!(found[4..], [0.0, 0.0], "{op}");
        let found = feed.f64s(&b, reduce(none))[0];
        assert!(found == nothing || found.is_nan() && nothing.is_nan());
    }
    // Rows are reduced one by one; those past the count stay past it.
    let y = call(&b, "reduce_sum", &[("x", x.into()), ("axis", ints(&[1]))]);
    assert_eq!(feed.f64s(&b, y)[..2], [3.0, 8.0]);
    assert!(b.counts_of(y).is_some());
    let grad = seeded(&b, y, x, &[1.0, 2.0, POISON]);
    assert_eq!(feed.f64s(&b, grad)[..4], [1.0, 1.0, 2.0, 2.0]);
}

#[test]
fn argmax_and_boolean_reductions_ignore_elements_past_the_count() {
    let (b, feed) = (Builder::new("t"), Feed::default());
    let x = feed.counted(&b, f64s(&[3], &[-3.0, -2.0, 9.0]), 2);
    let found = |op: &str, x| feed.run(&b, &[call(&b, op, &[("x", CallArg::Value(x))])]);
    assert_eq!(found("argmax", x).unwrap()[0].to_i64s(), [1]);
    let x = feed.counted(&b, i32s(&[3], &[4, 5, 0]), 2);
    assert_eq!(found("argmin", x).unwrap()[0].to_i64s(), [0]);
    let x = feed.counted(&b, bools(&[3], &[0, 0, 1]), 2);
    assert_eq!(found("reduce_any", x).unwrap()[0].to_bools(), [false]);
    let x = feed.counted(&b, bools(&[3], &[1, 1, 0]), 2);
    assert_eq!(found("reduce_all", x).unwrap()[0].to_bools(), [true]);
}

#[test]
fn scans_keep_elements_past_the_count_there() {
    let (b, feed) = (Builder::new("t"), Feed::default());
    let x = feed.counted(&b, f64s(&[4], &[2.0, 3.0, POISON, POISON]), 2);
    for (op, expected, grad) in [
        ("cumsum", [2.0, 5.0], [11.0, 10.0]),
        ("cumprod", [2.0, 6.0], [31.0, 20.0]),
    ] {
        let y = call(&b, op, &[("x", x.into())]);
        assert_eq!(feed.f64s(&b, y)[..2], expected);
        let found = seeded(&b, y, x, &[1.0, 10.0, POISON, POISON]);
        assert_eq!(feed.f64s(&b, found)[..2], grad);
    }
}

#[test]
fn contractions_ignore_elements_past_the_count() {
    let (b, feed) = (Builder::new("t"), Feed::default());
    let rows = [1.0, 2.0, 3.0, 4.0, POISON, POISON];
    let x = feed.counted(&b, f64s(&[3, 2], &rows), 2);
    let w = feed.input(&b, f64s(&[2, 1], &[10.0, 1.0]));
    let inputs = CallArg::Values(vec![x, w]);
    let named = [("a", x.into()), ("b", w.into())];
    let ways = [
        call(&b, "matmul", &named),
        call(
            &b,
            "einsum",
            &[("equation", word("ij,jk->ik")), ("inputs", inputs)],
        ),
        call(&b, "tensordot", &[&named[..], &[("axes", int(1))]].concat()),
    ];
    for y in ways {
        assert_eq!(feed.f64s(&b, y)[..2], [12.0, 34.0]);
        assert!(b.counts_of(y).is_some());
        let grad = seeded(&b, y, w, &[1.0, 2.0, POISON]);
        assert_eq!(feed.f64s(&b, grad), [7.0, 10.0]);
        let grad = seeded(&b, y, x, &[1.0, 2.0, POISON]);
        assert_eq!(feed.f64s(&b, grad)[..4], [10.0, 1.0, 20.0, 2.0]);
    }
    // The sum is over the counted dimension.
    let transposed = [
        ("a", x.into()),
        ("b", x.into()),
        ("transpose_a", CallArg::Known(Arg::Bool(true))),
    ];
    let y = call(&b, "matmul", &transposed);
    assert_eq!(feed.f64s(&b, y), [10.0, 14.0, 14.0, 20.0]);
    let grad = feed.f64s(&b, seeded(&b, y, x, &[1.0; 4]));
    assert_eq!(grad, [6.0, 6.0, 14.0, 14.0, 0.0, 0.0]);
}

#[test]
fn segments_ignore_rows_past_the_count() {
    let rows = [1.0, 2.0, 3.0, 5.0, POISON, POISON];
    for (op, expected, grad) in [
        ("segment_sum", [4.0, 7.0], [1.0, 1.0, 1.0, 1.0]),
        ("segment_mean", [2.0, 3.5], [0.5, 0.5, 0.5, 0.5]),
        ("segment_max", [3.0, 5.0], [0.0, 0.0, 1.0, 1.0]),
        ("segment_min", [1.0, 2.0], [1.0, 1.0, 0.0, 0.0]),
        ("segment_prod", [3.0, 10.0], [3.0, 5.0, 1.0, 2.0]),
    ] {
        for sorted in [true, false] {
            if !sorted && op == "segment_mean" {
                continue;
            }
            let (b, feed) = (Builder::new("t"), Feed::default());
            let data = feed.counted(&b, f64s(&[3, 2], &rows), 2);
            let ids = feed.input(&b, i32s(&[3], &[1, 1, -9]));
            // The ids have the count of the rows.
            let mut ty = ids.tensor_type();
            ty.shape.0[0] = data.tensor_type().shape.0[0].clone();
            b.name_counts(ids, &ty);
            let mut named = vec![("data", data.into()), ("segment_ids", ids.into())];
            let op = match sorted {
                true => op.to_owned(),
                false => {
                    named.push(("num_segments", int(2)));
                    format!("unsorted_{op}")
                }
            };
            let y = call(&b, &op, &named);
            assert_eq!(feed.f64s(&b, y)[2..4], expected, "{op}");
            let mut weights = vec![1.0; y.ty().elements()];
            weights[4..].fill(POISON);
            let found = feed.f64s(&b, seeded(&b, y, data, &weights));
            assert_eq!(found[..4], grad, "{op}");
            assert_eq!(found[4..], [0.0, 0.0], "{op}");
            if sorted {
                let count = b.counts_of(y).unwrap()[0].unwrap();
                assert_eq!(feed.f64s(&b, count), [2.0]);
            }
        }
    }
}

#[test]
fn bounds_of_fake_quantization_get_no_gradient_from_past_the_count() {
    let (b, feed) = (Builder::new("t"), Feed::default());
    let x = feed.counted(&b, f64s(&[3], &[-9.0, 0.5, -9.0]), 2);
    let [min, max] = [-1.0, 1.0].map(|x| feed.input(&b, f64s(&[], &[x])));
    let named = [
        ("inputs", x.into()),
        ("min", min.into()),
        ("max", max.into()),
    ];
    let y = call(&b, "fake_quant_with_min_max_vars", &named);
    let grad = seeded(&b, y, min, &[3.0, 5.0, POISON]);
    assert_eq!(feed.f64s(&b, grad), [3.0]);
}

#[test]
fn rows_past_the_count_do_not_disturb_sorting() {
    let (b, feed) = (Builder::new("t"), Feed::default());
    let rows = [2.0, 1.0, POISON, POISON];
    let x = feed.counted(&b, f64s(&[2, 2], &rows), 1);
    let y = call(&b, "sort", &[("x", x.into())]);
    assert_eq!(feed.f64s(&b, y)[..2], [1.0, 2.0]);
    let grad = seeded(&b, y, x, &[1.0, 10.0, POISON, POISON]);
    assert_eq!(feed.f64s(&b, grad)[..2], [10.0, 1.0]);
}
