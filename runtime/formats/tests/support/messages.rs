//! Messages and numbers of the reference data.

use serde_json::Value as Json;
use trainspec_formats::events::{Elements, elements, shape};
use trainspec_formats::proto::TensorProto;

/// The fields of an object, which has no others than these.
pub fn fields<'a>(json: &'a Json, known: &[&str]) -> &'a serde_json::Map<String, Json> {
    let object = json.as_object().expect("an object");
    for key in object.keys() {
        assert!(known.contains(&key.as_str()), "`{key}` is not known here");
    }
    object
}

/// A number; what is not finite is a string.
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

/// Whether two numbers are the same, or both none.
pub fn same(a: f64, b: f64) -> bool {
    a == b || a.is_nan() && b.is_nan()
}

/// That a tensor is the one that is stated.
pub fn assert_tensor(tensor: &TensorProto, json: &Json) {
    fields(json, &["dtype", "shape", "data", "data_hex"]);
    let dtype = json["dtype"].as_str().expect("a type");
    let name = tensor.dtype().as_str_name();
    let expected_name = match dtype {
        "float16" => "DT_HALF".to_owned(),
        "float32" => "DT_FLOAT".to_owned(),
        "float64" => "DT_DOUBLE".to_owned(),
        other => format!("DT_{}", other.to_uppercase()),
    };
    assert_eq!(name, expected_name);
    assert_eq!(shape(tensor).unwrap(), extents(json));
    match elements(tensor).unwrap() {
        Elements::Floats(values) => {
            let expected = numbers(&json["data"]);
            assert_eq!(values.len(), expected.len());
            for (value, expected) in values.into_iter().zip(expected) {
                let expected = match dtype {
                    "float64" => expected,
                    _ => f64::from(expected as f32),
                };
                assert!(same(value, expected), "{value} and {expected}");
            }
        }
        Elements::Integers(values) => {
            let list = json["data"].as_array().expect("a list");
            let expected: Vec<i64> = list
                .iter()
                .map(|n| n.as_i64().expect("an integer"))
                .collect();
            assert_eq!(values, expected);
        }
        Elements::Strings(values) => {
            let list = json["data_hex"].as_array().expect("a list");
            let expected: Vec<Vec<u8>> = list.iter().map(crate::support::bytes).collect();
            assert_eq!(values, expected);
        }
        other => panic!("{other:?} is not compared"),
    }
}
