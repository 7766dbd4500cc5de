//! Type inference with symbolic dimensions and run-time counts.

use trainspec_ir::ops::RuleErrorKind;

use crate::support::calls::{infer, shown};

#[test]
fn symbolic_dimensions_stay_symbolic() {
    for (op, args, result) in [
        ("add", vec!["x=f32[batch,4]", "y=f32[4]"], "f32[batch, 4]"),
        (
            "where",
            vec!["condition=bool[batch,1]", "x=f32[4]", "y=f32[]"],
            "f32[batch, 4]",
        ),
        (
            "matmul",
            vec!["a=f32[batch,n]", "b=f32[n,3]"],
            "f32[batch, 3]",
        ),
        (
            "reduce_mean",
            vec!["x=f32[batch,n]", "axis=-1"],
            "f32[batch]",
        ),
        ("argmax", vec!["x=f32[batch,n]", "axis=1"], "i64[batch]"),
        (
            "concat",
            vec!["values=f32[n,2];f32[m,2]", "axis=0"],
            "f32[m + n, 2]",
        ),
        (
            "stack",
            vec!["values=f32[n];f32[n]", "axis=-1"],
            "f32[n, 2]",
        ),
        (
            "split",
            vec!["value=f32[n,6]", "num_or_size_splits=2,-1", "axis=1"],
            "f32[n, 2] f32[n, 4]",
        ),
        ("tile", vec!["x=f32[n]", "multiples=3"], "f32[3 * n]"),
        ("pad", vec!["tensor=f32[n]", "paddings=1:2"], "f32[n + 3]"),
        ("fill", vec!["dims=n,2", "value=i32[]"], "i32[n, 2]"),
        (
            "gather",
            vec!["params=f32[v,d]", "indices=i64[batch,s]"],
            "f32[batch, s, d]",
        ),
        (
            "einsum",
            vec!["equation=bqd,bkd->bqk", "inputs=f32[n,q,8];f32[n,k,8]"],
            "f32[n, q, k]",
        ),
        (
            "top_k",
            vec!["input=f32[batch,n]", "k=5"],
            "f32[batch, 5] i32[batch, 5]",
        ),
        ("range", vec!["start=n"], "i64[n]"),
        (
            "range",
            vec!["start=2", "limit=n", "dtype=f32"],
            "f32[n - 2]",
        ),
        ("random_normal", vec!["shape=n,2"], "f32[n, 2]"),
    ] {
        assert_eq!(shown(op, &args), result, "{op}");
    }
}

#[test]
fn reshape_divides_polynomials() {
    assert_eq!(
        shown("reshape", &["x=f32[b,s,8]", "shape=-1,4"]),
        "f32[2 * b * s, 4]"
    );
    assert_eq!(
        shown("reshape", &["x=f32[b,6]", "shape=b,2,3"]),
        "f32[b, 2, 3]"
    );
    let error = infer("reshape", &["x=f32[b,6]", "shape=-1,4"]).unwrap_err();
    assert_eq!(error.kind, RuleErrorKind::ShapeMismatch);
    assert_eq!(
        error.message,
        "there are 6 * b elements, which 4 does not divide"
    );
}

#[test]
fn windows_move_over_symbolic_heights() {
    let same = [
        "input=f32[n,h,w,3]",
        "filters=f32[3,3,3,8]",
        "strides=2",
        "padding=same",
    ];
    assert_eq!(
        shown("conv2d", &same),
        "f32[n, floor((h + 1) / 2), floor((w + 1) / 2), 8]"
    );
    let valid = ["input=f32[n,h,w,3]", "ksize=2"];
    assert_eq!(shown("max_pool2d", &valid), "f32[n, h - 1, w - 1, 3]");
    let back = [
        "input=f32[n,h,w,8]",
        "filters=f32[3,3,4,8]",
        "strides=2",
        "padding=valid",
    ];
    assert_eq!(
        shown("conv2d_transpose", &back),
        "f32[n, 2 * h + 1, 2 * w + 1, 4]"
    );
}

#[test]
fn slices_of_symbolic_dimensions_count_from_either_end() {
    let slice = |begin: &str, end: &str, stride: &str, masks: [&str; 2]| {
        let args = [
            "input=f32[n]".to_owned(),
            format!("begin={begin}"),
            format!("end={end}"),
            format!("strides={stride}"),
            format!("begin_mask={}", masks[0]),
            format!("end_mask={}", masks[1]),
        ];
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        infer("strided_slice", &args).map(|types| types[0].to_string())
    };
    assert_eq!(slice("1", "0", "1", ["0", "1"]).unwrap(), "f32[n - 1]");
    assert_eq!(slice("0", "-1", "1", ["0", "0"]).unwrap(), "f32[n - 1]");
    assert_eq!(slice("-3", "0", "1", ["0", "1"]).unwrap(), "f32[3]");
    assert_eq!(slice("0", "0", "-1", ["1", "1"]).unwrap(), "f32[n]");
    assert_eq!(
        slice("0", "0", "2", ["1", "1"]).unwrap(),
        "f32[floor((n + 1) / 2)]"
    );
    assert_eq!(
        slice("-2", "3", "1", ["0", "0"]).unwrap_err().kind,
        RuleErrorKind::UnknownSize
    );
}

#[test]
fn counts_are_made_where_values_decide() {
    assert_eq!(shown("unique", &["x=i64[n]"]), "i64[<=n] i32[n]");
    assert_eq!(
        shown("boolean_mask", &["tensor=f32[a,b,3]", "mask=bool[a,b]"]),
        "f32[<=a * b, 3]"
    );
    let sums = ["data=f32[n,2]", "segment_ids=i32[n]"];
    assert_eq!(shown("segment_sum", &sums), "f32[<=n, 2]");
    let exact = ["data=f32[n,2]", "segment_ids=i32[n]", "num_segments=5"];
    assert_eq!(shown("segment_sum", &exact), "f32[5, 2]");
    let partitions = ["data=f32[n]", "partitions=i32[n]", "num_partitions=2"];
    let partitions = infer("dynamic_partition", &partitions).unwrap();
    assert_ne!(
        partitions[0].shape.0[0].count,
        partitions[1].shape.0[0].count
    );
}

#[test]
fn counts_stay_where_elements_stay_in_their_rows() {
    assert_eq!(shown("exp", &["x=f32[<=n,2]"]), "f32[<=n, 2]");
    assert_eq!(
        shown("multiply", &["x=f32[<=n,2]", "y=f32[2]"]),
        "f32[<=n, 2]"
    );
    assert_eq!(
        shown("matmul", &["a=f32[<=n,2]", "b=f32[2,3]"]),
        "f32[<=n, 3]"
    );
    assert_eq!(
        shown("gather", &["params=f32[9,2]", "indices=i64[<=n]"]),
        "f32[<=n, 2]"
    );
    assert_eq!(
        shown("pad", &["tensor=f32[<=n,2]", "paddings=0:0,1:1"]),
        "f32[<=n, 4]"
    );
    assert_eq!(
        shown("slice", &["input=f32[<=n,2]", "begin=0,1", "size=-1,1"]),
        "f32[<=n, 1]"
    );
    assert_eq!(
        shown("concat", &["values=f32[<=n,2];f32[<=n,3]", "axis=1"]),
        "f32[<=n, 5]"
    );
    assert_eq!(shown("count", &["x=f32[2,<=n]"]), "i64");
}

#[test]
fn counted_dimensions_are_refused_where_their_end_would_matter() {
    for (op, args) in [
        ("add", vec!["x=f32[<=n#a]", "y=f32[<=n#b]"]),
        ("reshape", vec!["x=f32[<=n,2]", "shape=-1"]),
        ("concat", vec!["values=f32[<=n];f32[3]", "axis=0"]),
        ("tile", vec!["x=f32[<=n]", "multiples=2"]),
        ("pad", vec!["tensor=f32[<=n]", "paddings=0:1"]),
        ("reverse", vec!["x=f32[<=n]", "axis=0"]),
        ("cumsum", vec!["x=f32[<=n]", "reverse=true"]),
        ("sort", vec!["x=f32[<=n]"]),
        ("top_k", vec!["input=f32[<=n]", "k=1"]),
        ("split", vec!["value=f32[<=4]", "num_or_size_splits=2"]),
        ("unstack", vec!["value=f32[<=4]"]),
        ("slice", vec!["input=f32[<=4]", "begin=1", "size=-1"]),
        (
            "strided_slice",
            vec!["input=f32[<=4]", "begin=0", "end=1", "shrink_axis_mask=1"],
        ),
        ("max_pool2d", vec!["input=f32[1,<=4,4,1]", "ksize=2"]),
        ("orthogonalize", vec!["x=f32[<=4,4]"]),
        ("count", vec!["x=f32[4]"]),
    ] {
        assert_eq!(
            infer(op, &args).unwrap_err().kind,
            RuleErrorKind::CountMismatch,
            "{op}"
        );
    }
}
