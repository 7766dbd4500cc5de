//! Calls of arguments that the cases of this repository do not have.

use serde_json::{Value as Json, json};

use crate::oracle::calls::Precision;
use crate::oracle::model::Model;
use crate::oracle::ops::Case;

/// A case with inputs of zeros.
fn case(op: &str, args: Json, inputs: &[(&str, &str, &[usize])], outputs: usize) -> Json {
    let tensor = |dtype: &str, shape: &[usize]| {
        let data = vec![0; shape.iter().product()];
        json!({"dtype": dtype, "shape": shape, "data": data})
    };
    let input = |(name, dtype, shape): &(&str, &str, &[usize])| {
        let mut input = tensor(dtype, shape);
        input["name"] = json!(name);
        input
    };
    let inputs: Vec<Json> = inputs.iter().map(input).collect();
    let outputs: Vec<Json> = (0..outputs).map(|_| tensor("float32", &[1])).collect();
    json!({"name": "case", "op": op, "args": args, "inputs": inputs, "expected": {"outputs": outputs}})
}

/// Whether the case is called like that, and the call is one of the language.
#[track_caller]
fn assert_call(json: &Json, text: &str) {
    let case = Case::read(json).unwrap();
    let call = case.call().unwrap();
    assert_eq!(call.text, text);
    let inputs = case.inputs.iter().map(|input| input.value.clone());
    let model = Model::calling(inputs.collect(), &call.text, case.outputs.len());
    if let Err(wrong) = model.check() {
        panic!("{wrong}");
    }
}

#[track_caller]
fn assert_refused(json: &Json, message: &str) {
    let refused = Case::read(json).and_then(|case| case.call()).unwrap_err();
    assert_eq!(refused, message);
}

const X: &[(&str, &str, &[usize])] = &[("x", "float32", &[2, 3])];

#[test]
fn oracle_windows_have_four_entries_or_fewer() {
    let image: &[(&str, &str, &[usize])] = &[("input", "float32", &[1, 2, 5, 6])];
    let args =
        json!({"ksize": [1, 1, 2, 3], "strides": 2, "padding": "VALID", "data_format": "NCHW"});
    assert_call(
        &case("max_pool", args, image, 1),
        "transpose(max_pool2d(transpose(x0, perm: [0, 2, 3, 1]), ksize: [2, 3], strides: [2, 2], \
         padding: \"valid\"), perm: [0, 3, 1, 2])",
    );
    let filtered: &[(&str, &str, &[usize])] = &[
        ("input", "float64", &[1, 5, 6, 2]),
        ("filter", "float64", &[2, 2, 2, 1]),
    ];
    let args = json!({"strides": [1, 2, 2, 1], "padding": [[0, 0], [1, 1], [0, 2], [0, 0]], "dilations": [2]});
    assert_call(
        &case("depthwise_conv2d", args, filtered, 1),
        "nn.depthwise_conv2d(x0, x1, pads: [[1, 1], [0, 2]], strides: [2, 2], dilations: [2, 2])",
    );
    let args = json!({"strides": [1, 2, 2, 3], "padding": "SAME"});
    assert_refused(
        &case("depthwise_conv2d", args, filtered, 1),
        "`depthwise_conv2d`: `strides` concerns batch or channels",
    );
}

#[test]
fn oracle_axes_are_numbers_lists_or_nothing() {
    assert_call(
        &case("reduce_max", json!({"axis": -1}), X, 1),
        "reduce_max(x0, axis: -1)",
    );
    let args = json!({"axis": null, "keepdims": true});
    assert_call(
        &case("reduce_max", args, X, 1),
        "reduce_max(x0, keepdims: true)",
    );
    let two: &[(&str, &str, &[usize])] = &[("a", "float32", &[2, 3]), ("b", "float32", &[3, 2])];
    assert_call(
        &case("tensordot", json!({"axes": [1, [0]]}), two, 1),
        "tensordot(x0, x1, a_axes: [1], b_axes: [0])",
    );
}

#[test]
fn oracle_losses_take_weights_and_reductions_of_all_kinds() {
    let mixed: &[(&str, &str, &[usize])] = &[
        ("labels", "int32", &[2, 3]),
        ("predictions", "float16", &[2, 3]),
    ];
    let args = json!({"reduction": "weighted_sum_over_batch_size", "weights": 0.5});
    assert_call(
        &case("mean_squared_error", args, mixed, 1),
        "mean_squared_error(cast(x0, f32), cast(x1, f32), weights: 0.5, reduction: \"sum_over_batch_size\")",
    );
    let wide: &[(&str, &str, &[usize])] = &[
        ("labels", "int64", &[2]),
        ("logits", "float64", &[2, 3]),
        ("weights", "float32", &[2]),
    ];
    let json = case("sparse_softmax_cross_entropy", json!({}), wide, 1);
    assert_call(
        &json,
        "sparse_softmax_cross_entropy(x0, x1, weights: cast(x2, f64))",
    );
    let call = Case::read(&json).unwrap().call().unwrap();
    assert_eq!(call.precision, Precision::Single);
}

#[test]
fn oracle_results_have_the_type_that_is_requested() {
    let args = json!({"axis": 1, "output_type": "int32"});
    assert_call(
        &case("argmax", args, X, 1),
        "cast(argmax(x0, axis: 1), i32)",
    );
    let integers: &[(&str, &str, &[usize])] = &[("x", "int32", &[3]), ("y", "int32", &[3])];
    assert_call(
        &case("divide", json!({}), integers, 1),
        "divide(cast(x0, f64), cast(x1, f64))",
    );
    assert_call(
        &case("range", json!({}), &[("limit", "int64", &[])], 1),
        "range(0, dtype: i64)",
    );
}

#[test]
fn oracle_inputs_may_be_missing_and_partitions_many() {
    let some: &[(&str, &str, &[usize])] = &[
        ("x", "float32", &[2, 3]),
        ("mean", "float32", &[3]),
        ("variance", "float32", &[3]),
        ("scale", "float32", &[3]),
    ];
    assert_call(
        &case("batch_normalization", json!({}), some, 1),
        "batch_normalization(x: x0, mean: x1, variance: x2, scale: x3)",
    );
    let parts: &[(&str, &str, &[usize])] = &[
        ("params0", "float32", &[3, 2]),
        ("params1", "float32", &[3, 2]),
        ("params2", "float32", &[2, 2]),
        ("ids", "int32", &[4]),
    ];
    let args = json!({"max_norm": 2, "partition_strategy": "div"});
    assert_call(
        &case("embedding_lookup", args, parts, 1),
        "clip_by_norm(embedding_lookup_partitioned([x0, x1, x2], x3, partition_strategy: \"div\"), 2, axes: [1])",
    );
}

#[test]
fn oracle_formulas_are_read() {
    let pair: &[(&str, &str, &[usize])] = &[("u", "float32", &[3]), ("v", "float32", &[3])];
    let mut json = case("composite", json!({"rate": 0.25}), pair, 1);
    json["formula"] = json!("exp(u) * (rate - v) / 2, elementwise; no gradient to v");
    assert_call(&json, "exp(x0) * (0.25 - stop_gradient(x1)) / 2");
    json["formula"] = json!("blur(u) + v * rate");
    assert_refused(
        &json,
        "`composite`: the formula `blur(u) + v * rate`: `blur` is not known",
    );
}

#[test]
fn oracle_reports_what_it_does_not_know() {
    assert_refused(
        &case("fft", json!({}), X, 1),
        "`fft`: the operation is not known",
    );
    assert_refused(
        &case("exp", json!({"base": 2}), X, 1),
        "`exp`: an argument that is not known: `base`",
    );
    assert_refused(
        &case("exp", json!({}), &[("x", "complex64", &[1])], 1),
        "dtype `complex64` is not known",
    );
    let mut json = case("exp", json!({}), X, 1);
    json["seed"] = json!(1);
    assert_refused(&json, "a field of the case that is not known: `seed`");
}
