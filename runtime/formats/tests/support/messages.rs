//! Messages and numbers of the reference data.

use serde_json::Value as Json;
use trainspec_formats::proto::TensorProto;
use trainspec_formats::tensor::Tensor;

use super::tensors;

/// The fields of an object, which has no others than these.
pub fn fields<'a>(json: &'a Json, known: &[&str]) -> &'a serde_json::Map<String, Json> {
    let object = json.as_object().expect("an object");
    for key in object.keys() {
        assert!(known.contains(&key.as_str()), "`{key}` is not known here");
    }
    object
}

/// A number; one that is not finite is a string.
pub fn number(json: &Json) -> f64 {
    match json.as_str() {
        Some("nan") => f64::NAN,
        Some("inf") => f64::INFINITY,
        Some("-inf") => f64::NEG_INFINITY,
        Some(other) => panic!("`{other}` is no number"),
        None => json.as_f64().expect("a number"),
    }
}

/// The numbers of a list.
pub fn numbers(json: &Json) -> Vec<f64> {
    json.as_array()
        .expect("a list")
        .iter()
        .map(number)
        .collect()
}

/// The extents of a tensor.
pub fn extents(json: &Json) -> Vec<usize> {
    let list = json["shape"].as_array().expect("a shape");
    list.iter()
        .map(|n| n.as_u64().expect("an extent") as usize)
        .collect()
}

/// Whether two numbers are equal, or both NaN.
pub fn same(a: f64, b: f64) -> bool {
    a == b || a.is_nan() && b.is_nan()
}

/// That a tensor is the one that is stated.
pub fn assert_tensor(message: &TensorProto, json: &Json) {
    let found = Tensor::from_message(message.clone()).unwrap();
    let expected = tensors::tensor("a tensor of a message", json);
    assert!(tensors::same(&found, &expected), "{found:?} and {json}");
}
