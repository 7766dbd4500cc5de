//! Segment reductions, sorted and unsorted.

use trainspec_ir::build::{Builder, Value};
use trainspec_ir::{DType, Tensor};

use crate::support::gradcheck;
use crate::support::graphs::{Feed, call, counting, f64s, i32s, int, weighted_gradient};

const SORTED_OPS: [&str; 5] = [
    "segment_sum",
    "segment_mean",
    "segment_max",
    "segment_min",
    "segment_prod",
];

const UNSORTED_OPS: [&str; 4] = [
    "unsorted_segment_sum",
    "unsorted_segment_max",
    "unsorted_segment_min",
    "unsorted_segment_prod",
];

fn sorted<'g>(op: &str, data: Value<'g>, ids: Value<'g>, number: Option<i64>) -> Value<'g> {
    let mut named = vec![("data", data.into()), ("segment_ids", ids.into())];
    named.extend(number.map(|n| ("num_segments", int(n))));
    call(data.builder(), op, &named)
}

fn unsorted<'g>(op: &str, data: Value<'g>, ids: Value<'g>, number: i64) -> Value<'g> {
    sorted(op, data, ids, Some(number))
}

#[test]
fn sorted_segments_are_counted() {
    for (op, expected) in SORTED_OPS.iter().zip([
        [3.0, 7.0, 0.0, 0.0],
        [1.5, 3.5, 0.0, 0.0],
        [2.0, 4.0, 0.0, 0.0],
        [1.0, 3.0, 0.0, 0.0],
        [2.0, 12.0, 1.0, 1.0],
    ]) {
        let (b, feed) = (Builder::new("t"), Feed::default());
        let data = feed.input(&b, counting(&[4]));
        let ids = feed.input(&b, i32s(&[4], &[0, 0, 1, 1]));
        let y = sorted(op, data, ids, None);
        assert_eq!(feed.f64s(&b, y), expected, "{op}");
        let count = b.counts_of(y).unwrap()[0].unwrap();
        assert_eq!(feed.f64s(&b, count), [2.0]);
        // An empty segment, and more segments than ids.
        let ids = feed.input(&b, i32s(&[4], &[1, 1, 3, 3]));
        let y = feed.f64s(&b, sorted(op, data, ids, Some(5)));
        assert_eq!([y[1], y[3], y[2], y[0]], expected, "{op}");
        assert_eq!((y.len(), y[4]), (5, y[0]));
    }
}

#[test]
fn ids_must_ascend_from_zero_on() {
    for op in SORTED_OPS {
        let fault = |ids: &[i32], number: Option<i64>| {
            let (b, feed) = (Builder::new("t"), Feed::default());
            let data = feed.input(&b, counting(&[3, 2]));
            let ids = feed.input(&b, i32s(&[3], ids));
            feed.error(&b, sorted(op, data, ids, number))
        };
        assert_eq!(
            fault(&[0, 2, 1], None),
            "`segment_ids[i + 1] - segment_ids[i]`: -1 is not in 0..9223372036854775807"
        );
        assert_eq!(fault(&[-1, 0, 1], None), "`segment_ids`: -1 is not in 0..3");
        assert_eq!(fault(&[0, 1, 3], None), "`segment_ids`: 3 is not in 0..3");
        assert_eq!(
            fault(&[0, 1, 2], Some(2)),
            "`segment_ids`: 2 is not in 0..2"
        );
    }
}

#[test]
fn ids_may_be_bytes() {
    let (b, feed) = (Builder::new("t"), Feed::default());
    let data = feed.input(&b, counting(&[3]));
    let ids = feed.input(&b, Tensor::new(&[3], vec![0_u8, 200, 255]));
    assert_eq!(
        feed.f64s(&b, sorted("segment_sum", data, ids, Some(256)))[255],
        3.0
    );
    let y = unsorted("unsorted_segment_max", data, ids, 256);
    assert_eq!(feed.f64s(&b, y)[200], 2.0);
}

#[test]
fn negative_ids_are_dropped() {
    let max = f64::MAX;
    for (op, expected) in UNSORTED_OPS.iter().zip([
        [0.0, 0.0, 6.0, 8.0, 5.0, 6.0],
        [-max, -max, 5.0, 6.0, 5.0, 6.0],
        [max, max, 1.0, 2.0, 5.0, 6.0],
        [1.0, 1.0, 5.0, 12.0, 5.0, 6.0],
    ]) {
        let (b, feed) = (Builder::new("t"), Feed::default());
        let rows = [1.0, 2.0, 3.0, f64::NAN, 5.0, 6.0, 5.0, 6.0];
        let data = feed.input(&b, f64s(&[2, 2, 2], &rows));
        let ids = feed.input(&b, i32s(&[2, 2], &[1, -7, 1, 2]));
        let y = unsorted(op, data, ids, 3);
        assert_eq!(feed.f64s(&b, y), expected, "{op}");
        let grad = feed.f64s(&b, weighted_gradient(&b, y, data));
        assert_eq!(grad[2..4], [0.0, 0.0], "{op}");
        assert!(grad.iter().all(|x| x.is_finite()), "{op}");
        // One id for all.
        let ids = feed.input(&b, Tensor::scalar(0_i64));
        let y = unsorted(op, data, ids, 1);
        assert_eq!(feed.f64s(&b, y)[..3], rows[..3], "{op}");
    }
}

#[test]
fn ids_that_are_too_large_are_errors() {
    for op in UNSORTED_OPS {
        let (b, feed) = (Builder::new("t"), Feed::default());
        let data = feed.input(&b, counting(&[2]));
        let ids = feed.input(&b, i32s(&[2], &[-1, 3]));
        let fault = feed.error(&b, unsorted(op, data, ids, 3));
        assert!(fault.contains("3 is out of range 0..3"), "{fault}");
    }
}

#[test]
fn there_may_be_no_rows_and_no_segments() {
    let (b, feed) = (Builder::new("t"), Feed::default());
    let none = feed.input(&b, f64s(&[0, 2], &[]));
    let no_ids = feed.input(&b, i32s(&[0], &[]));
    for op in SORTED_OPS {
        let y = sorted(op, none, no_ids, None);
        assert_eq!(feed.f64s(&b, y), [0.0; 0]);
        let count = b.counts_of(y).unwrap()[0].unwrap();
        assert_eq!(feed.f64s(&b, count), [0.0]);
        assert_eq!(sorted(op, none, no_ids, Some(1)).shape(), [1, 2]);
    }
    let rows = feed.input(&b, counting(&[2, 1]));
    let ids = feed.input(&b, i32s(&[2], &[-1, -1]));
    for op in UNSORTED_OPS {
        assert_eq!(unsorted(op, none, no_ids, 3).shape(), [3, 2]);
        let y = unsorted(op, rows, ids, 0);
        assert_eq!(feed.f64s(&b, y), [0.0; 0]);
        assert_eq!(feed.f64s(&b, weighted_gradient(&b, y, rows)), [0.0, 0.0]);
    }
}

#[test]
fn empty_segments_have_the_limits_of_integer_types() {
    let (b, feed) = (Builder::new("t"), Feed::default());
    let data = feed.input(&b, Tensor::new(&[2], vec![100_i8, 100]));
    let ids = feed.input(&b, i32s(&[2], &[1, 1]));
    let run = |op: &str| {
        let y = feed.run(&b, &[unsorted(op, data, ids, 2)]).unwrap();
        (y[0].dtype(), y[0].to_i64s())
    };
    assert_eq!(run("unsorted_segment_sum"), (DType::I8, vec![0, -56]));
    assert_eq!(run("unsorted_segment_max"), (DType::I8, vec![-128, 100]));
    assert_eq!(run("unsorted_segment_min"), (DType::I8, vec![127, 100]));
    assert_eq!(run("unsorted_segment_prod"), (DType::I8, vec![1, 16]));
    assert_eq!(run("segment_max"), (DType::I8, vec![0, 100]));
}

#[test]
fn ties_share_the_gradient() {
    let (b, feed) = (Builder::new("t"), Feed::default());
    let data = feed.input(&b, f64s(&[4], &[3.0, 1.0, 3.0, 1.0]));
    let ids = feed.input(&b, i32s(&[4], &[1, 1, 1, 1]));
    let grad = |op: &str| {
        let y = unsorted(op, data, ids, 2);
        feed.f64s(&b, weighted_gradient(&b, y, data))
    };
    assert_eq!(grad("unsorted_segment_max"), [1.0, 0.0, 1.0, 0.0]);
    assert_eq!(grad("segment_min"), [0.0, 1.0, 0.0, 1.0]);
}

#[test]
fn gradients_of_segments_agree_with_finite_differences() {
    let x = f64s(&[4, 2], &[1.0, -2.0, 0.5, 3.0, 0.25, -1.5, 2.0, 1.0]);
    let ids = [0, 0, 2, 2];
    for op in SORTED_OPS {
        gradcheck::check(&x, |x| {
            let ids = x.builder().constant(i32s(&[4], &ids));
            sorted(op, x.square(), ids, None)
        });
    }
    let ids = [2, -1, 0, 2];
    for op in UNSORTED_OPS {
        gradcheck::check(&x, |x| {
            let ids = x.builder().constant(i32s(&[4], &ids));
            let y = unsorted(op, x.square(), ids, 3);
            // The limits of the type are too large for finite differences.
            y.abs().less(y.like(1e9)).select(y, y.like(0.0))
        });
    }
}

#[test]
fn products_with_zeros_have_tensorflows_gradient() {
    let (b, feed) = (Builder::new("t"), Feed::default());
    let data = feed.input(&b, f64s(&[6], &[2.0, 0.0, 3.0, 0.0, 0.0, 4.0]));
    let ids = feed.input(&b, i32s(&[6], &[0, 0, 0, 1, 1, 1]));
    let y = unsorted("unsorted_segment_prod", data, ids, 2);
    let grad = weighted_gradient(&b, y, data);
    assert_eq!(feed.f64s(&b, grad), [0.0, 6.0, 0.0, 0.0, 0.0, 0.0]);
    // One zero: how the gradient at it changes with the others, and theirs with it.
    let one = f64s(&[3], &[2.0, 0.0, 3.0]);
    gradcheck::check(&one, |x| {
        let ids = x.builder().constant(i32s(&[3], &[0, 0, 0]));
        x.segment_prod(ids, 1)
    });
}
