//! Values of a run as text and as JSON.

use serde_json::{Value, json};
use trainspec::session::{Mean, Reading};
use trainspec_compiler::ir::Tensor;
use trainspec_compiler::ir::tensor::Data;

use crate::tensors;

pub(super) fn reading_text(reading: &Reading) -> String {
    match reading {
        Reading::Number(x) => number(*x),
        Reading::Mean(mean) => mean_text(*mean),
        Reading::Tensor(tensor) if tensor.data().len() <= 8 => tensor.to_string(),
        Reading::Tensor(tensor) => tensor.ty().to_string(),
    }
}

pub(super) fn reading_json(reading: &Reading) -> Value {
    match reading {
        Reading::Number(x) => real_json(*x),
        Reading::Mean(mean) => mean_json(*mean),
        Reading::Tensor(tensor) => tensor_json(tensor),
    }
}

/// A number; what is not finite as a string, since JSON has no such numbers.
pub(super) fn real_json(x: f64) -> Value {
    serde_json::from_str(&tensors::json_real(x)).unwrap_or(Value::Null)
}

/// A tensor as nested arrays, a scalar as a number, a bool or a string.
fn tensor_json(tensor: &Tensor) -> Value {
    let element = |i: usize| match tensor.data() {
        Data::Bool(values) => json!(values[i]),
        Data::String(values) => tensors::json_bytes(&values[i]),
        Data::I64(values) => json!(values[i]),
        _ if tensor.dtype().is_int() => json!(tensor.to_f64s()[i] as i64),
        _ => real_json(tensor.to_f64s()[i]),
    };
    nested(tensor.shape(), &mut 0, &element)
}

/// The elements from `next` on as arrays of a shape, row by row.
fn nested(shape: &[usize], next: &mut usize, element: &impl Fn(usize) -> Value) -> Value {
    match shape {
        [] => {
            *next += 1;
            element(*next - 1)
        }
        [n, inner @ ..] => (0..*n).map(|_| nested(inner, next, element)).collect(),
    }
}

/// A mean; of bools also the count of true ones and the total.
pub(super) fn mean_text(mean: Mean) -> String {
    match mean.is_bool {
        true => format!("{:.3} ({} of {})", mean.value(), mean.sum, mean.count),
        false => number(mean.value()),
    }
}

pub(super) fn mean_json(mean: Mean) -> Value {
    json!({ "mean": real_json(mean.value()), "sum": real_json(mean.sum), "count": mean.count })
}

/// A number with five significant digits.
pub(super) fn number(x: f64) -> String {
    const DIGITS: i32 = 5;
    if x == 0.0 || !x.is_finite() {
        return x.to_string();
    }
    let magnitude = x.abs().log10().floor() as i32;
    if !(-4..7).contains(&magnitude) {
        return format!("{x:.*e}", DIGITS as usize - 1);
    }
    let places = (DIGITS - 1 - magnitude).max(0) as usize;
    let text = format!("{x:.places$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_five_significant_digits() {
        for (x, text) in [
            (0.0, "0"),
            (0.02, "0.02"),
            (1.0, "1"),
            (-0.123456, "-0.12346"),
            (123456.0, "123456"),
            (0.00012345678, "0.00012346"),
            (1.5e-9, "1.5000e-9"),
            (3e20, "3.0000e20"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(number(x), text);
        }
    }
}
