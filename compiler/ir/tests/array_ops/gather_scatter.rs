//! Gathers and scatters: gather, gather_nd, scatter_nd, boolean_mask, dynamic_partition, dynamic_stitch, unique, …

use trainspec_ir::autodiff::{Cotangent, IndexedSlices, Request};
use trainspec_ir::build::{Builder, CallArg, Value};
use trainspec_ir::graph::Type;
use trainspec_ir::ops::find;
use trainspec_ir::{DType, Tensor};

use crate::support::graphs::{
    Feed, bools, call, calls, counting, f64s, gradient, i32s, int, ints, weighted_gradient,
};

/// The linear (row-major) index of `at` in `shape`.
fn flat(shape: &[usize], at: &[usize]) -> usize {
    at.iter().zip(shape).fold(0, |flat, (i, n)| flat * n + i)
}

/// All multi-indices of a shape, in row-major order.
fn each(shape: &[usize]) -> Vec<Vec<usize>> {
    shape.iter().fold(vec![Vec::new()], |all, n| {
        let longer = |at: &Vec<usize>| {
            (0..*n)
                .map(|i| [&at[..], &[i]].concat())
                .collect::<Vec<_>>()
        };
        all.iter().flat_map(longer).collect()
    })
}

#[test]
fn gather_finds_slices_along_any_axis_of_any_batch() {
    let params = [2, 3, 4, 2];
    for (axis, batch, shape) in [
        (0, 0, vec![]),
        (0, 0, vec![3, 2]),
        (2, 0, vec![2]),
        (3, 0, vec![2, 2]),
        (1, 1, vec![2]),
        (2, 1, vec![2, 3]),
        (3, 1, vec![2, 2, 2]),
        (2, 2, vec![2, 3, 5]),
        (3, 2, vec![2, 3]),
        (1, 0, vec![0]),
    ] {
        let (b, feed) = (Builder::new("t"), Feed::default());
        let x = feed.input(&b, counting(&params));
        let n: usize = shape.iter().product();
        let indices: Vec<i32> = (0..n).map(|i| (i * 5 % params[axis]) as i32).collect();
        let given = feed.input(&b, i32s(&shape, &indices));
        let y = call(
            &b,
            "gather",
            &[
                ("params", x.into()),
                ("indices", given.into()),
                ("axis", int(axis as i64)),
                ("batch_dims", int(batch)),
            ],
        );
        let batch = batch as usize;
        let result = [&params[..axis], &shape[batch..], &params[axis + 1..]].concat();
        assert_eq!(y.shape(), result);
        // An index of `result` is: before the axis, then in `indices` without its batch, then after the axis.
        let source = |at: &Vec<usize>| {
            let (before, rest) = at.split_at(axis);
            let (inner, after) = rest.split_at(shape.len() - batch);
            let index = indices[flat(&shape, &[&at[..batch], inner].concat())] as usize;
            flat(&params, &[before, &[index], after].concat())
        };
        let sources: Vec<usize> = each(&result).iter().map(source).collect();
        let expected: Vec<f64> = sources.iter().map(|s| (s + 1) as f64).collect();
        assert_eq!(feed.f64s(&b, y), expected, "{axis} {batch} {shape:?}");
        let mut back = vec![0.0; 48];
        for (i, s) in sources.iter().enumerate() {
            back[*s] += (i + 1) as f64;
        }
        let grad = weighted_gradient(&b, y, x);
        assert_eq!(feed.f64s(&b, grad), back, "{axis} {batch} {shape:?}");
    }
}

#[test]
fn gradients_of_row_gathers_stay_sparse() {
    let (b, feed) = (Builder::new("t"), Feed::default());
    let table = feed.input(&b, counting(&[4, 2]));
    let first = feed.input(&b, i32s(&[2, 1], &[3, 0]));
    let more = feed.input(&b, Tensor::new(&[1], vec![3_i64]));
    let of = |indices: Value<'_>| {
        [
            ("params", table.into()),
            ("indices", b.value(indices.id()).into()),
        ]
    };
    let (y, z) = (
        call(&b, "gather", &of(first)),
        call(&b, "gather", &of(more)),
    );
    let gradient = b.gradients(&[y, z], &[table]).remove(0);
    let Some(Cotangent::Sparse(IndexedSlices {
        indices,
        rows,
        length,
        ..
    })) = gradient
    else {
        panic!("{gradient:?} is not sparse");
    };
    assert_eq!((rows.shape(), length), (vec![3, 2], 4));
    let mut positions = feed.f64s(&b, indices);
    positions.sort_by(f64::total_cmp);
    assert_eq!(positions, [0.0, 3.0, 3.0]);
    let dense = gradient.unwrap().dense();
    assert_eq!(
        feed.f64s(&b, dense),
        [1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 2.0, 2.0]
    );
}

#[test]
fn gather_nd_reads_at_multi_dimensional_indices() {
    let (b, feed) = (Builder::new("t"), Feed::default());
    let x = feed.input(&b, counting(&[2, 3, 2]));
    let read = |indices: Tensor, batch: i64| {
        let indices = feed.input(&b, indices);
        let y = call(
            &b,
            "gather_nd",
            &[
                ("params", x.into()),
                ("indices", indices.into()),
                ("batch_dims", int(batch)),
            ],
        );
        (y.shape(), feed.f64s(&b, y))
    };
    let (shape, y) = read(i32s(&[2, 2], &[1, 2, 0, 0]), 0);
    assert_eq!((shape, y), (vec![2, 2], vec![11.0, 12.0, 1.0, 2.0]));
    let (shape, y) = read(i32s(&[1, 3], &[1, 0, 1]), 0);
    assert_eq!((shape, y), (vec![1], vec![8.0]));
    let (shape, y) = read(i32s(&[2, 1], &[2, 0]), 1);
    assert_eq!((shape, y), (vec![2, 2], vec![5.0, 6.0, 7.0, 8.0]));
    // An index of depth 0 names the entire tensor.
    let (shape, y) = read(i32s(&[2, 0], &[]), 0);
    assert_eq!(shape, [2, 2, 3, 2]);
    assert_eq!(y[..12], y[12..]);
    let (shape, y) = read(i32s(&[0, 2], &[]), 0);
    assert_eq!((shape, y), (vec![0, 2], vec![]));
}

#[test]
fn scatters_accumulate_and_the_last_update_wins() {
    let (b, feed) = (Builder::new("t"), Feed::default());
    let indices = feed.input(&b, i32s(&[3, 2], &[1, 0, 0, 1, 1, 0]));
    let updates = feed.input(&b, f64s(&[3], &[10.0, 20.0, 30.0]));
    let x = feed.input(&b, counting(&[2, 2]));
    let common = || [("indices", indices.into()), ("updates", updates.into())];
    let into_zeros = [&common()[..], &[("shape", ints(&[2, 2]))]].concat();
    let zeros = call(&b, "scatter_nd", &into_zeros);
    assert_eq!(feed.f64s(&b, zeros), [0.0, 20.0, 40.0, 0.0]);
    let grad = weighted_gradient(&b, zeros, updates);
    assert_eq!(feed.f64s(&b, grad), [3.0, 2.0, 3.0]);
    let into_x = [&common()[..], &[("tensor", x.into())]].concat();
    let added = call(&b, "tensor_scatter_nd_add", &into_x);
    assert_eq!(feed.f64s(&b, added), [1.0, 22.0, 43.0, 4.0]);
    let grad = weighted_gradient(&b, added, x);
    assert_eq!(feed.f64s(&b, grad), [1.0, 2.0, 3.0, 4.0]);
    let put = call(&b, "tensor_scatter_nd_update", &into_x);
    assert_eq!(feed.f64s(&b, put), [1.0, 20.0, 30.0, 4.0]);
    let grad = weighted_gradient(&b, put, x);
    assert_eq!(feed.f64s(&b, grad), [1.0, 0.0, 0.0, 4.0]);
    let grad = weighted_gradient(&b, put, updates);
    assert_eq!(feed.f64s(&b, grad), [3.0, 2.0, 3.0]);
}

#[test]
fn sums_at_one_index_are_rounded_once() {
    let (b, feed) = (Builder::new("t"), Feed::default());
    let rows = Tensor::new(&[3], vec![0.5_f32, 0.5, 1e8]);
    let rows = feed.input(&b, rows);
    let indices = feed.input(&b, i32s(&[3], &[0, 0, 0]));
    let zero = b.full(&Type::new(DType::F32, &[1]), -1e8);
    let sum = zero.scatter_add(indices, rows);
    assert_eq!(feed.f64s(&b, sum), [1.0]);
}

#[test]
fn boolean_mask_keeps_what_is_true() {
    let (b, feed) = (Builder::new("t"), Feed::default());
    let x = feed.input(&b, counting(&[2, 2, 3]));
    let mask = feed.input(&b, bools(&[2, 3], &[0, 1, 0, 0, 0, 1]));
    let y = call(
        &b,
        "boolean_mask",
        &[
            ("tensor", x.into()),
            ("mask", mask.into()),
            ("axis", int(1)),
        ],
    );
    assert_eq!(y.shape(), [2, 6]);
    let count = call(&b, "count", &[("x", y.into())]);
    assert_eq!(feed.f64s(&b, count), [2.0]);
    let kept = feed.f64s(&b, y);
    assert_eq!(
        (&kept[..2], &kept[6..8]),
        (&[2.0, 6.0][..], &[8.0, 12.0][..])
    );
    // Cotangents of elements past the count are dropped.
    let seed = f64s(
        &[2, 6],
        &[
            1.0,
            2.0,
            f64::NAN,
            0.0,
            0.0,
            5.0,
            3.0,
            4.0,
            0.0,
            7.0,
            0.0,
            f64::NAN,
        ],
    );
    let request = Request {
        ys: vec![y],
        xs: vec![x],
        seeds: vec![Some(b.constant(seed))],
        stop_gradients: Vec::new(),
    };
    let grad = b.differentiate(&request).remove(0).unwrap().dense();
    let mut expected = vec![0.0; 12];
    [expected[1], expected[5], expected[7], expected[11]] = [1.0, 2.0, 3.0, 4.0];
    assert_eq!(feed.f64s(&b, grad), expected);
}

#[test]
fn partitioned_rows_are_stitched_together_again() {
    let (b, feed) = (Builder::new("t"), Feed::default());
    let x = feed.input(&b, counting(&[4, 2]));
    let numbers = feed.input(&b, i32s(&[4], &[2, 0, 2, 0]));
    let row_ids = feed.input(&b, i32s(&[4], &[0, 1, 2, 3]));
    let partition = |data: Value<'_>| {
        let op = find("dynamic_partition").unwrap();
        let given = [b.value(data.id()).into(), numbers.into(), int(3)];
        // One site, so that the counts are known to be equal.
        b.call(op, &given, "partition").unwrap()
    };
    let (partitions, indices) = (partition(x), partition(row_ids));
    let count = |rows: &Value<'_>| call(&b, "count", &[("x", b.value(rows.id()).into())]);
    let counts: Vec<f64> = partitions
        .iter()
        .flat_map(|rows| feed.f64s(&b, count(rows)))
        .collect();
    assert_eq!(counts, [2.0, 0.0, 2.0]);
    let last = feed.f64s(&b, partitions[2]);
    assert_eq!(last[..4], [1.0, 2.0, 5.0, 6.0]);
    let stitched = call(
        &b,
        "dynamic_stitch",
        &[
            ("indices", CallArg::Values(indices)),
            ("data", CallArg::Values(partitions)),
            ("size", int(4)),
        ],
    );
    assert_eq!(feed.f64s(&b, stitched), feed.f64s(&b, x));
    let grad = weighted_gradient(&b, stitched, x);
    assert_eq!(feed.f64s(&b, grad), feed.f64s(&b, x));
}

#[test]
fn stitching_overwrites_earlier_rows_by_later_ones() {
    let (b, feed) = (Builder::new("t"), Feed::default());
    let first = feed.input(&b, i32s(&[2], &[4, 0]));
    let second = feed.input(&b, Tensor::new(&[], vec![0_i64]));
    let third = feed.input(&b, i32s(&[2, 0], &[]));
    let x = feed.input(&b, counting(&[2, 2]));
    let y = feed.input(&b, f64s(&[2], &[8.0, 9.0]));
    let z = feed.input(&b, counting(&[2, 0, 2]));
    let lists = || {
        vec![
            ("indices", CallArg::Values(vec![first, second, third])),
            ("data", CallArg::Values(vec![x, y, z])),
        ]
    };
    let mut sized = lists();
    sized.push(("size", int(5)));
    let stitched = call(&b, "dynamic_stitch", &sized);
    let expected = [8.0, 9.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 2.0];
    assert_eq!(feed.f64s(&b, stitched), expected);
    // As in TensorFlow, the overwritten row gets a gradient too.
    let grad = weighted_gradient(&b, stitched, x);
    assert_eq!(feed.f64s(&b, grad), [9.0, 10.0, 1.0, 2.0]);
    let unsized_one = call(&b, "dynamic_stitch", &lists());
    assert_eq!(unsized_one.shape(), [3, 2]);
    assert_eq!(feed.error(&b, unsized_one), "`indices`: 4 is not in 0..3");
}

#[test]
fn unique_keeps_first_occurrences() {
    let unique = |x: Tensor| {
        let (b, feed) = (Builder::new("t"), Feed::default());
        let x = feed.input(&b, x);
        let [values, positions] = calls(&b, "unique", &[("x", x.into())])[..] else {
            panic!("`unique` has two results");
        };
        let count = feed.f64s(&b, call(&b, "count", &[("x", values.into())]))[0] as usize;
        let mut values = feed.f64s(&b, values);
        assert!(values[count..].iter().all(|x| *x == 0.0));
        values.truncate(count);
        (values, feed.f64s(&b, positions))
    };
    let (values, positions) = unique(i32s(&[5], &[7, -1, 7, 0, -1]));
    assert_eq!(values, [7.0, -1.0, 0.0]);
    assert_eq!(positions, [0.0, 1.0, 0.0, 2.0, 1.0]);
    let (values, positions) = unique(f64s(&[5], &[-0.0, f64::NAN, 0.0, f64::NAN, 2.0]));
    assert_eq!(values.len(), 4);
    assert!(values[0].is_sign_negative() && values[1].is_nan() && values[2].is_nan());
    assert_eq!(positions, [0.0, 1.0, 0.0, 2.0, 3.0]);
    assert_eq!(unique(bools(&[3], &[1, 1, 0])).0, [1.0, 0.0]);
    assert_eq!(unique(f64s(&[0], &[])), (vec![], vec![]));
}

#[test]
fn reverse_sequence_reverses_a_prefix_of_each_sequence() {
    let (b, feed) = (Builder::new("t"), Feed::default());
    let x = feed.input(&b, counting(&[3, 2, 2]));
    let lengths = feed.input(&b, Tensor::new(&[2], vec![3_i64, 2]));
    let arguments = [
        ("input", x.into()),
        ("seq_lengths", lengths.into()),
        ("seq_axis", int(0)),
        ("batch_axis", int(2)),
    ];
    let y = call(&b, "reverse_sequence", &arguments);
    // Along axis 0 the first of each pair is reversed entirely, the second only in its first two.
    let expected = [
        9.0, 6.0, 11.0, 8.0, 5.0, 2.0, 7.0, 4.0, 1.0, 10.0, 3.0, 12.0,
    ];
    assert_eq!(feed.f64s(&b, y), expected);
    let grad = weighted_gradient(&b, y, x);
    assert_eq!(feed.f64s(&b, grad), expected);
}

#[test]
fn a_surrogate_gets_the_gradient() {
    let (b, feed) = (Builder::new("t"), Feed::default());
    let x = feed.input(&b, f64s(&[2], &[1.4, 2.6]));
    let y = x.round().straight_through(x);
    assert_eq!(feed.f64s(&b, y), [1.0, 3.0]);
    let grad = gradient(&b, y * y, x);
    assert_eq!(feed.f64s(&b, grad), [2.0, 6.0]);
}
