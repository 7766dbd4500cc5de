//! Counted (bounded dynamic) dimensions: elements past the count are never read, not even by gradients.

use trainspec_ir::autodiff::{Cotangent, IndexedSlices};
use trainspec_ir::build::{Builder, CallArg, Value};
use trainspec_ir::{DType, Tensor};

use crate::support::graphs::{Feed, call, calls, counting, f64s, i32s, int, ints, seeded};

const POISON: f64 = f64::NAN;

#[test]
fn indices_past_the_count_are_not_read() {
    let read = |indices: &[i32], count: i64, weights: &[f64]| {
        let (b, feed) = (Builder::new("t"), Feed::default());
        let x = feed.input(&b, counting(&[3]));
        let indices = feed.counted(&b, i32s(&[4], indices), count);
        let y = call(
            &b,
            "gather",
            &[("params", x.into()), ("indices", indices.into())],
        );
        let mut values = feed.f64s(&b, y);
        values.truncate(count as usize);
        (values, feed.f64s(&b, seeded(&b, y, x, weights)))
    };
    let (values, grad) = read(&[2, 0, -7, 99], 2, &[1.0, 10.0, POISON, POISON]);
    assert_eq!(
        (&values[..], &grad[..]),
        (&[3.0, 1.0][..], &[10.0, 0.0, 1.0][..])
    );
    let (values, grad) = read(&[2, 1, 2, 2], 4, &[1.0, 2.0, 3.0, 4.0]);
    assert_eq!(
        (&values[..], &grad[..]),
        (&[3.0, 2.0, 3.0, 3.0][..], &[0.0, 2.0, 8.0][..])
    );
    let (values, grad) = read(&[99, -1, 5, 3], 0, &[POISON; 4]);
    assert_eq!((&values[..], &grad[..]), (&[][..], &[0.0; 3][..]));
}

#[test]
fn sparse_gradients_touch_no_row_past_the_count() {
    let (b, feed) = (Builder::new("t"), Feed::default());
    let x = feed.input(&b, counting(&[3, 2]));
    let indices = feed.counted(&b, i32s(&[3], &[2, 0, 0]), 1);
    let y = call(
        &b,
        "gather",
        &[("params", x.into()), ("indices", indices.into())],
    );
    let gradient = b.gradients(&[y], &[x]).remove(0);
    let Some(Cotangent::Sparse(IndexedSlices { indices, rows, .. })) = gradient else {
        panic!("{gradient:?} is not sparse");
    };
    assert_eq!(feed.f64s(&b, indices), [2.0, 2.0, 2.0]);
    assert_eq!(feed.f64s(&b, rows), [1.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
}

#[test]
fn rows_past_the_count_are_out_of_range() {
    let (b, feed) = (Builder::new("t"), Feed::default());
    let x = feed.counted(&b, f64s(&[4], &[1.0, 2.0, POISON, POISON]), 2);
    let inside = feed.input(&b, i32s(&[2], &[1, 0]));
    let y = call(
        &b,
        "gather",
        &[("params", x.into()), ("indices", inside.into())],
    );
    assert_eq!(feed.f64s(&b, y), [2.0, 1.0]);
    let outside = feed.input(&b, i32s(&[1], &[2]));
    let y = call(
        &b,
        "gather",
        &[("params", x.into()), ("indices", outside.into())],
    );
    assert_eq!(feed.error(&b, y), "`indices - count`: 0 is not in -4..0");
    // No rows of an empty tensor.
    let empty = feed.counted(&b, f64s(&[2], &[POISON, POISON]), 0);
    let none = feed.counted(&b, i32s(&[2], &[9, 9]), 0);
    let y = call(
        &b,
        "gather",
        &[("params", empty.into()), ("indices", none.into())],
    );
    assert!(feed.run(&b, &[y]).is_ok());
}

#[test]
fn masks_and_partitions_past_the_count_are_dropped() {
    let (b, feed) = (Builder::new("t"), Feed::default());
    let x = feed.counted(&b, f64s(&[4], &[1.0, 2.0, 3.0, POISON]), 3);
    let mask = x.greater(b.scalar(x.dtype(), 1.5)).logical_or(x.is_nan());
    b.same_counts(x, mask);
    let y = call(
        &b,
        "boolean_mask",
        &[("tensor", x.into()), ("mask", mask.into())],
    );
    let count = call(&b, "count", &[("x", y.into())]);
    assert_eq!(feed.f64s(&b, count), [2.0]);
    assert_eq!(feed.f64s(&b, y), [2.0, 3.0, 0.0, 0.0]);
    let grad = seeded(&b, y, x, &[5.0, 6.0, POISON, POISON]);
    assert_eq!(feed.f64s(&b, grad), [0.0, 5.0, 6.0, 0.0]);
    let numbers = mask.cast(DType::I32);
    b.same_counts(x, numbers);
    let partitions = calls(
        &b,
        "dynamic_partition",
        &[
            ("data", x.into()),
            ("partitions", numbers.into()),
            ("num_partitions", int(2)),
        ],
    );
    let counts: Vec<Value<'_>> = partitions
        .iter()
        .map(|p| call(&b, "count", &[("x", (*p).into())]))
        .collect();
    assert_eq!(feed.f64s(&b, counts[0]), [1.0]);
    assert_eq!(feed.f64s(&b, counts[1]), [2.0]);
    let grad = seeded(&b, partitions[0], x, &[7.0, POISON, POISON, POISON]);
    assert_eq!(feed.f64s(&b, grad), [7.0, 0.0, 0.0, 0.0]);
}

#[test]
fn unique_values_past_the_count_are_not_counted() {
    for (count, expected) in [(0, 0.0), (1, 1.0), (3, 2.0), (5, 4.0)] {
        let (b, feed) = (Builder::new("t"), Feed::default());
        let x = feed.counted(&b, f64s(&[5], &[4.0, 7.0, 4.0, POISON, POISON]), count);
        let values = calls(&b, "unique", &[("x", x.into())])[0];
        let n = call(&b, "count", &[("x", values.into())]);
        assert_eq!(feed.f64s(&b, n), [expected]);
        let values = feed.f64s(&b, values);
        assert_eq!(values[..2], [4.0, 7.0]);
    }
}

#[test]
fn updates_past_the_count_are_dropped() {
    let (b, feed) = (Builder::new("t"), Feed::default());
    let x = feed.input(&b, counting(&[3]));
    let indices = feed.counted(&b, i32s(&[3, 1], &[2, -5, 77]), 1);
    let updates = feed.input(&b, f64s(&[3], &[10.0, POISON, POISON]));
    let counts = b.counts_in(&[indices]);
    let mut ty = updates.tensor_type();
    ty.shape.0[0].count = Some(counts[0].0.clone());
    b.name_counts(updates, &ty);
    let arguments = [
        ("tensor", x.into()),
        ("indices", indices.into()),
        ("updates", updates.into()),
    ];
    let added = call(&b, "tensor_scatter_nd_add", &arguments);
    assert_eq!(feed.f64s(&b, added), [1.0, 2.0, 13.0]);
    let put = call(&b, "tensor_scatter_nd_update", &arguments);
    assert_eq!(feed.f64s(&b, put), [1.0, 2.0, 10.0]);
    let grad = seeded(&b, put, x, &[1.0, 2.0, 3.0]);
    assert_eq!(feed.f64s(&b, grad), [1.0, 2.0, 0.0]);
    let grad = seeded(&b, put, updates, &[1.0, 2.0, 3.0]);
    assert_eq!(feed.f64s(&b, grad)[0], 3.0);
    let zeros = [
        arguments[1].clone(),
        arguments[2].clone(),
        ("shape", ints(&[3])),
    ];
    let zeros = call(&b, "scatter_nd", &zeros);
    assert_eq!(feed.f64s(&b, zeros), [0.0, 0.0, 10.0]);
    let stitched = call(
        &b,
        "dynamic_stitch",
        &[
            ("indices", CallArg::Values(vec![flat_of(&b, indices)])),
            ("data", CallArg::Values(vec![updates])),
        ],
    );
    let count = call(&b, "count", &[("x", stitched.into())]);
    assert_eq!(feed.f64s(&b, count), [3.0]);
    assert_eq!(feed.f64s(&b, stitched), [0.0, 0.0, 10.0]);
}

/// A column of indices as a vector with the same count.
fn flat_of<'g>(b: &'g Builder, indices: Value<'g>) -> Value<'g> {
    call(b, "squeeze", &[("x", indices.into()), ("axis", ints(&[1]))])
}

#[test]
fn lengths_end_at_the_count() {
    let (b, feed) = (Builder::new("t"), Feed::default());
    let x = feed.counted(&b, f64s(&[3, 1], &[1.0, 2.0, POISON]), 2);
    let reversed = |lengths: i64| {
        let lengths = feed.input(&b, Tensor::new(&[1], vec![lengths]));
        call(
            &b,
            "reverse_sequence",
            &[
                ("input", x.into()),
                ("seq_lengths", lengths.into()),
                ("seq_axis", int(0)),
                ("batch_axis", int(1)),
            ],
        )
    };
    assert_eq!(feed.f64s(&b, reversed(2))[..2], [2.0, 1.0]);
    let error = feed.error(&b, reversed(3));
    assert_eq!(error, "`seq_lengths - count`: 1 is not in -3..1");
}
