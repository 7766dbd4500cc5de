//! Decoded elements of features, their bounds and defaults, and their conversion to tensors.

use trainspec_compiler::ir::graph::Type;
use trainspec_compiler::ir::tensor::Data;
use trainspec_compiler::ir::{DType, Tensor};
use trainspec_compiler::typed::{Feature, FeatureDefault};

use crate::DataError;

/// One element.
#[derive(Debug, Clone)]
pub(super) enum Value {
    Float(f64),
    Int(i64),
    Bytes(Vec<u8>),
}

/// Checks a value against the bounds of its feature.
pub(super) fn bounded(feature: &Feature, value: Value) -> Result<Value, DataError> {
    match (&value, feature.bounds) {
        (Value::Int(n), Some((low, high))) if !(low..high).contains(n) => {
            let name = &feature.name;
            Err(
                DataError::new(format!("`{name}` is {n}, which is not in {low}..{high}"))
                    .at(feature.span),
            )
        }
        _ => Ok(value),
    }
}

/// A tensor of values; there is one value for each element.
pub(super) fn tensor(ty: &Type, values: Vec<Value>) -> Tensor {
    let floats = || {
        values.iter().map(|v| match v {
            Value::Float(x) => *x,
            Value::Int(n) => *n as f64,
            Value::Bytes(_) => 0.0,
        })
    };
    let ints = || {
        values.iter().map(|v| match v {
            Value::Int(n) => *n,
            Value::Float(_) | Value::Bytes(_) => 0,
        })
    };
    match ty.dtype {
        DType::F16 | DType::Bf16 | DType::F32 | DType::F64 => Tensor::from_f64s(ty, floats()),
        DType::I8 | DType::I16 | DType::I32 | DType::I64 | DType::U8 | DType::Bool => {
            Tensor::from_i64s(ty, ints())
        }
        DType::String => {
            let bytes = |v| match v {
                Value::Bytes(bytes) => bytes,
                Value::Float(_) | Value::Int(_) => Vec::new(),
            };
            Tensor::of(
                &ty.shape,
                Data::String(values.into_iter().map(bytes).collect()),
            )
        }
    }
}

/// The default of each element of a feature.
pub(super) fn defaults(feature: &Feature, ty: &Type) -> Option<Vec<Value>> {
    let mut values: Vec<Value> = match feature.default.as_ref()? {
        FeatureDefault::Floats(values) => values.iter().map(|x| Value::Float(*x)).collect(),
        FeatureDefault::Ints(values) => values.iter().map(|n| Value::Int(*n)).collect(),
        FeatureDefault::Strings(values) => {
            let bytes = |s: &String| Value::Bytes(s.as_bytes().to_vec());
            values.iter().map(bytes).collect()
        }
    };
    if let [one] = values.as_slice() {
        values = vec![one.clone(); ty.elements()];
    }
    Some(values)
}
