//! Type errors of operations and their messages.

use trainspec_ir::ops::RuleErrorKind;

use crate::support::calls::{infer, shown};

#[track_caller]
fn refuses(op: &str, args: &[&str], kind: RuleErrorKind, message: &str) {
    let error = infer(op, args).expect_err("it should be refused");
    assert_eq!((error.kind, error.message.as_str()), (kind, message));
}

#[test]
fn axes_out_of_range_are_refused() {
    let message = "axis 2 does not exist: the tensor has 2 dimensions";
    refuses(
        "argmax",
        &["x=f32[2,3]", "axis=2"],
        RuleErrorKind::AxisOutOfRange,
        message,
    );
    refuses(
        "concat",
        &["values=f32[2,3]", "axis=2"],
        RuleErrorKind::AxisOutOfRange,
        message,
    );
    let message = "axis -1 does not exist: the tensor has no dimensions";
    refuses("sort", &["x=f32[]"], RuleErrorKind::AxisOutOfRange, message);
    let message = "no dimension can go at 3: the tensor has 1 dimension";
    refuses(
        "expand_dims",
        &["x=f32[2]", "axis=3"],
        RuleErrorKind::AxisOutOfRange,
        message,
    );
    refuses(
        "reduce_sum",
        &["x=f32[2,3]", "axis=1,-1"],
        RuleErrorKind::BadValue,
        "axis -1 is named twice",
    );
    refuses(
        "transpose",
        &["x=f32[2,3]", "perm=0,0"],
        RuleErrorKind::BadValue,
        "axis 0 is named twice",
    );
}

#[test]
fn ranks_are_stated() {
    let message = "`input` must have 4 dimensions, but has 2 dimensions";
    refuses(
        "conv2d",
        &["input=f32[2,3]", "filters=f32[1,1,1,1]"],
        RuleErrorKind::RankMismatch,
        message,
    );
    let message = "`value` must have no dimensions, but has 1 dimension";
    refuses(
        "fill",
        &["dims=2", "value=f32[1]"],
        RuleErrorKind::RankMismatch,
        message,
    );
    let message = "`x` must have 1 dimension, but has 2 dimensions";
    refuses(
        "unique",
        &["x=i32[2,2]"],
        RuleErrorKind::RankMismatch,
        message,
    );
    let message = "`perm` needs 2 entries, one for each dimension of `x`, but has 1";
    refuses(
        "transpose",
        &["x=f32[2,3]", "perm=0"],
        RuleErrorKind::BadValue,
        message,
    );
}

#[test]
fn both_sides_of_a_mismatch_are_stated() {
    let message = "the channels of `input` and `filters` differ: 3 and 4";
    let args = ["input=f32[1,8,8,3]", "filters=f32[2,2,4,5]"];
    refuses("conv2d", &args, RuleErrorKind::ShapeMismatch, message);
    let message = "there are 6 elements, but the new shape has 8";
    refuses(
        "reshape",
        &["x=f32[2,3]", "shape=2,4"],
        RuleErrorKind::ShapeMismatch,
        message,
    );
    let message = "dimensions 1 of tensors 0 and 1 differ: 2 and 3";
    refuses(
        "concat",
        &["values=f32[1,2];f32[1,3]", "axis=0"],
        RuleErrorKind::ShapeMismatch,
        message,
    );
    let message = "the pieces add up to 4, but there are 5";
    let args = ["value=f32[5]", "num_or_size_splits=1,3"];
    refuses("split", &args, RuleErrorKind::ShapeMismatch, message);
    let message = "two dimensions labelled `j` differ: 3 and 4";
    let args = ["equation=ij,jk->ik", "inputs=f32[2,3];f32[4,5]"];
    refuses("einsum", &args, RuleErrorKind::ShapeMismatch, message);
    let message = "dimensions 0 of `data` and `segment_ids` differ: 4 and 3";
    refuses(
        "segment_sum",
        &["data=f32[4]", "segment_ids=i32[3]"],
        RuleErrorKind::ShapeMismatch,
        message,
    );
    let message = "dimensions 0 of what is to be written and `updates` differ: 2 and 3";
    let args = ["indices=i32[2,1]", "updates=f32[3]", "shape=5"];
    refuses("scatter_nd", &args, RuleErrorKind::ShapeMismatch, message);
    let message = "dimension 0 is n, not 1";
    refuses(
        "squeeze",
        &["x=f32[n,1]", "axis=0"],
        RuleErrorKind::ShapeMismatch,
        message,
    );
    let message = "[2, 3] does not stretch to [1, 3]";
    refuses(
        "broadcast_to",
        &["x=f32[2,3]", "shape=1,3"],
        RuleErrorKind::ShapeMismatch,
        message,
    );
}

#[test]
fn windows_that_do_not_fit_are_refused() {
    let message = "the window's height of 5 does not fit into the input's of 4";
    let args = ["input=f32[1,4,9,1]", "filters=f32[3,3,1,1]", "dilations=2"];
    refuses("conv2d", &args, RuleErrorKind::NegativeSize, message);
    let message = "`strides` must be 1 or more, but is 0";
    let args = ["input=f32[1,4,4,1]", "ksize=2", "strides=0"];
    refuses("avg_pool2d", &args, RuleErrorKind::BadValue, message);
    let message = "`ksize` must be one number or two (height and width), but has 3";
    refuses(
        "max_pool2d",
        &["input=f32[1,4,4,1]", "ksize=1,2,2"],
        RuleErrorKind::BadValue,
        message,
    );
    let message = "the height that `output_shape` needs and that of `input` differ: 3 and 2";
    let args = [
        "input=f32[1,2,2,1]",
        "filters=f32[3,3,1,1]",
        "output_shape=1,6,4,1",
        "strides=2",
    ];
    refuses(
        "conv2d_transpose",
        &args,
        RuleErrorKind::ShapeMismatch,
        message,
    );
}

#[test]
fn indices_out_of_range_are_refused() {
    let message = "position 4 does not exist: dimension 1 has 4";
    let args = [
        "input=f32[3,4]",
        "begin=0,4",
        "end=1,5",
        "shrink_axis_mask=2",
        "end_mask=1",
    ];
    refuses(
        "strided_slice",
        &args,
        RuleErrorKind::IndexOutOfRange,
        message,
    );
    let message = "dimension 0 has 3, but 2 from 2 on are requested";
    refuses(
        "slice",
        &["input=f32[3]", "begin=2", "size=2"],
        RuleErrorKind::IndexOutOfRange,
        message,
    );
    let message = "the last dimension has 3, fewer than `k`, which is 4";
    refuses(
        "top_k",
        &["input=f32[3]", "k=4"],
        RuleErrorKind::BadValue,
        message,
    );
    let message = "each position in `indices` has 3 numbers, but there are 2 dimensions to index";
    refuses(
        "gather_nd",
        &["params=f32[2,2]", "indices=i32[5,3]"],
        RuleErrorKind::ShapeMismatch,
        message,
    );
}

#[test]
fn slice_bounds_out_of_range_are_clamped_as_in_python() {
    let args = ["input=f32[4]", "begin=-9", "end=9"];
    assert_eq!(shown("strided_slice", &args), "f32[4]");
    let args = ["input=f32[4]", "begin=9", "end=-9", "strides=-3"];
    assert_eq!(shown("strided_slice", &args), "f32[2]");
    let args = [
        "input=f32[2,3,4]",
        "begin=0,0,1",
        "end=0,0,3",
        "ellipsis_mask=1",
        "new_axis_mask=2",
    ];
    assert_eq!(shown("strided_slice", &args), "f32[2, 3, 1, 2]");
}

#[test]
fn results_that_are_too_large_are_refused() {
    let message = "the result has more elements than a tensor may have (2^40)";
    let large = "x=f32[1048576,1048576]";
    refuses(
        "tile",
        &[large, "multiples=2,1"],
        RuleErrorKind::SizeOverflow,
        message,
    );
    refuses(
        "fill",
        &["dims=1048576,1048577", "value=f32[]"],
        RuleErrorKind::SizeOverflow,
        message,
    );
    refuses(
        "random_uniform",
        &["shape=9223372036854775807,2"],
        RuleErrorKind::SizeOverflow,
        message,
    );
    refuses(
        "range",
        &["start=9223372036854775807"],
        RuleErrorKind::SizeOverflow,
        message,
    );
    let args = ["tensor=f32[2]", "paddings=1:9223372036854775807"];
    refuses("pad", &args, RuleErrorKind::SizeOverflow, message);
    let args = ["equation=i,j->ij", "inputs=f32[1048576];f32[1048577]"];
    refuses("einsum", &args, RuleErrorKind::SizeOverflow, message);
}

#[test]
fn negative_sizes_are_refused() {
    let message = "dimension 1 would be -2";
    refuses(
        "fill",
        &["dims=1,-2", "value=f32[]"],
        RuleErrorKind::NegativeSize,
        message,
    );
    refuses(
        "random_normal",
        &["shape=1,-2"],
        RuleErrorKind::NegativeSize,
        message,
    );
    let message = "`multiples` must be 0 or more, but is -1";
    refuses(
        "tile",
        &["x=f32[2]", "multiples=-1"],
        RuleErrorKind::BadValue,
        message,
    );
    let message = "`shape` must be 0 or more, but is -2";
    refuses(
        "reshape",
        &["x=f32[2]", "shape=-2"],
        RuleErrorKind::BadValue,
        message,
    );
}

#[test]
fn tensors_are_not_split_into_too_many_pieces() {
    let message = "70000 tensors would come out, more than 65536";
    refuses(
        "unstack",
        &["value=f32[70000]"],
        RuleErrorKind::BadValue,
        message,
    );
    let message = "70000 pieces cannot be cut: their number is from 1 to 65536";
    let args = ["value=f32[70000]", "num_or_size_splits=70000"];
    refuses("split", &args, RuleErrorKind::BadValue, message);
    let message = "`num_partitions` must be from 1 to 65536, but is 70000";
    let args = ["data=f32[2]", "partitions=i32[2]", "num_partitions=70000"];
    refuses("dynamic_partition", &args, RuleErrorKind::BadValue, message);
}

#[test]
fn einsum_equations_are_validated() {
    let x = "inputs=f32[2,2]";
    for (equation, message) in [
        ("ii->i", "the label `i` is there twice in `ii`"),
        ("ij->k", "the result's label `k` is in no input"),
        ("i1->i", "`1` is no label: labels are letters"),
        ("...i->i", "an input has `...`, but the result has not"),
        ("ij->...", "the result has `...`, but no input has"),
        ("ij,jk", "the equation has 2 inputs, but 1 are given"),
    ] {
        let equation = format!("equation={equation}");
        refuses("einsum", &[&equation, x], RuleErrorKind::BadValue, message);
    }
    assert_eq!(shown("einsum", &["equation=ba", x]), "f32[2, 2]");
    assert_eq!(
        shown("einsum", &["equation=i...", "inputs=f32[2,3,4]"]),
        "f32[3, 4, 2]"
    );
}

#[test]
fn mirror_padding_needs_enough_elements() {
    let message = "dimension 0 has 3, too few to mirror 3 of them";
    let args = ["tensor=f32[3]", "paddings=3:0", "mode=reflect"];
    refuses("pad", &args, RuleErrorKind::BadValue, message);
    let args = ["tensor=f32[3]", "paddings=3:0", "mode=symmetric"];
    assert_eq!(shown("pad", &args), "f32[6]");
}

#[test]
fn numbers_must_suit_the_elements() {
    let args = ["tensor=u8[3]", "paddings=1:0", "constant_values=256"];
    refuses(
        "pad",
        &args,
        RuleErrorKind::DtypeMismatch,
        "256 is no u8: that is from 0 to 255",
    );
    let args = ["tensor=i32[3]", "paddings=1:0", "constant_values=0.5"];
    refuses("pad", &args, RuleErrorKind::DtypeMismatch, "0.5 is no i32");
    let args = ["start=0.5", "limit=3.0", "dtype=i32"];
    refuses(
        "range",
        &args,
        RuleErrorKind::DtypeMismatch,
        "a range of f32 numbers cannot be one of i32",
    );
    let args = ["shape=2", "minval=f32[]", "dtype=f64"];
    refuses(
        "random_uniform",
        &args,
        RuleErrorKind::DtypeMismatch,
        "`dtype` is f64, but `minval` is f32",
    );
    refuses(
        "cast",
        &["x=string[2]", "dtype=f32"],
        RuleErrorKind::DtypeMismatch,
        "string cannot become f32",
    );
    let args = ["inputs=f32[2]", "min=1", "max=1"];
    let message = "`min` must be less than `max`, but they are 1.0 and 1.0";
    refuses(
        "fake_quant_with_min_max_args",
        &args,
        RuleErrorKind::BadValue,
        message,
    );
}

#[test]
fn ranges_end_before_their_limit() {
    assert_eq!(shown("range", &["start=5"]), "i64[5]");
    assert_eq!(
        shown("range", &["start=3", "limit=-8", "delta=-3", "dtype=i32"]),
        "i32[4]"
    );
    assert_eq!(shown("range", &["start=3", "limit=1"]), "i64[0]");
    assert_eq!(
        shown("range", &["start=0.0", "limit=1", "delta=0.1"]),
        "f32[10]"
    );
    let message = "`delta` is 0, so the range never ends";
    refuses(
        "range",
        &["start=3", "delta=0"],
        RuleErrorKind::BadValue,
        message,
    );
}

#[test]
fn random_draws_take_the_type_of_their_bounds() {
    assert_eq!(
        shown("random_uniform", &["shape=2", "minval=f64[]"]),
        "f64[2]"
    );
    assert_eq!(shown("random_normal", &["shape=", "dtype=bf16"]), "bf16");
    assert_eq!(shown("truncated_normal", &["shape=2"]), "f32[2]");
}
