//! Run-time errors of indices out of range.

use trainspec_ir::Tensor;
use trainspec_ir::build::Builder;

use crate::support::graphs::{Feed, call, calls, counting, i32s, int, ints};

#[test]
fn reading_out_of_range_is_an_error() {
    for (index, shown) in [(5, "5"), (-1, "-1")] {
        let (b, feed) = (Builder::new("t"), Feed::default());
        let x = feed.input(&b, counting(&[5, 5]));
        let indices = feed.input(&b, i32s(&[5, 1], &[0, 1, index, 3, 4]));
        let plain = call(
            &b,
            "gather",
            &[("params", x.into()), ("indices", indices.into())],
        );
        let error = format!("index {shown} is out of range 0..5");
        assert_eq!(feed.error(&b, plain), error);
        let batched = call(
            &b,
            "gather",
            &[
                ("params", x.into()),
                ("indices", indices.into()),
                ("batch_dims", int(1)),
            ],
        );
        let error = format!("`indices`: {shown} is not in 0..5");
        assert_eq!(feed.error(&b, batched), error);
        let several = [("params", x.into()), ("indices", indices.into())];
        let several = call(&b, "gather_nd", &several);
        assert_eq!(feed.error(&b, several), error);
    }
}

#[test]
fn a_wrong_column_is_not_hidden_by_the_next() {
    let (b, feed) = (Builder::new("t"), Feed::default());
    let x = feed.input(&b, counting(&[2, 3]));
    // Index (0, 4) would be (1, 1), if only the linear index were checked.
    let indices = feed.input(&b, i32s(&[1, 2], &[0, 4]));
    let y = call(
        &b,
        "gather_nd",
        &[("params", x.into()), ("indices", indices.into())],
    );
    assert_eq!(feed.error(&b, y), "`indices`: 4 is not in 0..3");
    let updates = feed.input(&b, counting(&[1]));
    let arguments = [
        ("tensor", x.into()),
        ("indices", indices.into()),
        ("updates", updates.into()),
    ];
    for op in ["tensor_scatter_nd_add", "tensor_scatter_nd_update"] {
        let y = call(&b, op, &arguments);
        assert_eq!(feed.error(&b, y), "`indices`: 4 is not in 0..3");
    }
    let y = call(
        &b,
        "scatter_nd",
        &[
            arguments[1].clone(),
            arguments[2].clone(),
            ("shape", ints(&[2, 3])),
        ],
    );
    assert_eq!(feed.error(&b, y), "`indices`: 4 is not in 0..3");
}

#[test]
fn nothing_can_be_read_from_an_empty_tensor() {
    let (b, feed) = (Builder::new("t"), Feed::default());
    let x = feed.input(&b, counting(&[0, 2]));
    let some = feed.input(&b, i32s(&[1], &[0]));
    let y = call(
        &b,
        "gather",
        &[("params", x.into()), ("indices", some.into())],
    );
    assert_eq!(feed.error(&b, y), "index 0 is out of range 0..0");
    let none = feed.input(&b, i32s(&[0], &[]));
    let y = call(
        &b,
        "gather",
        &[("params", x.into()), ("indices", none.into())],
    );
    assert_eq!(feed.f64s(&b, y), []);
}

#[test]
fn scattered_rows_must_be_in_range() {
    let (b, feed) = (Builder::new("t"), Feed::default());
    let x = feed.input(&b, counting(&[2]));
    let indices = feed.input(&b, i32s(&[1], &[2]));
    let rows = feed.input(&b, counting(&[1]));
    for y in [x.scatter_add(indices, rows), x.scatter_set(indices, rows)] {
        assert_eq!(feed.error(&b, y), "index 2 is out of range 0..2");
    }
}

#[test]
fn partitions_and_lengths_must_be_in_range() {
    let (b, feed) = (Builder::new("t"), Feed::default());
    let x = feed.input(&b, counting(&[2, 3]));
    let numbers = feed.input(&b, i32s(&[2], &[0, 3]));
    let partitions = calls(
        &b,
        "dynamic_partition",
        &[
            ("data", x.into()),
            ("partitions", numbers.into()),
            ("num_partitions", int(3)),
        ],
    );
    assert_eq!(
        feed.error(&b, partitions[0]),
        "`partitions`: 3 is not in 0..3"
    );
    let lengths = feed.input(&b, Tensor::new(&[2], vec![3_i64, 4]));
    let y = call(
        &b,
        "reverse_sequence",
        &[
            ("input", x.into()),
            ("seq_lengths", lengths.into()),
            ("seq_axis", int(1)),
        ],
    );
    assert_eq!(feed.error(&b, y), "`seq_lengths`: 4 is not in 0..4");
}
