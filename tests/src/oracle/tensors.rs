//! Tensors as the reference data has them: `dtype`, `shape` and flat `data`.

use std::collections::BTreeMap;

use serde_json::Value as Json;
use trainspec_ir::graph::Type;
use trainspec_ir::tensor::Data;
use trainspec_ir::{DType, Tensor};

use crate::oracle::fields::{Fields, shortened};

/// An element type by TensorFlow's name.
pub fn dtype(name: &str) -> Result<DType, String> {
    Ok(match name {
        "float16" | "half" => DType::F16,
        "bfloat16" => DType::Bf16,
        "float32" | "float" => DType::F32,
        "float64" | "double" => DType::F64,
        "int8" => DType::I8,
        "int16" => DType::I16,
        "int32" => DType::I32,
        "int64" => DType::I64,
        "uint8" => DType::U8,
        "bool" => DType::Bool,
        "string" => DType::String,
        other => return Err(format!("dtype `{other}` is not known")),
    })
}

/// A tensor.
pub fn tensor(json: &Json) -> Result<Tensor, String> {
    let fields = Fields::of(json)?;
    let tensor = tensor_of(&fields)?;
    fields.done("a field of a tensor")?;
    Ok(tensor)
}

/// A tensor that stands among other fields.
pub fn tensor_of(fields: &Fields<'_>) -> Result<Tensor, String> {
    let dtype = dtype(fields.text("dtype")?)?;
    let ty = Type::new(dtype, &sizes(fields.need("shape")?)?);
    let data = match dtype {
        DType::String => fields.list("data_hex")?,
        _ => fields.list("data")?,
    };
    if data.len() != ty.elements() {
        return Err(format!("{ty} with {} elements", data.len()));
    }
    fn all<T>(data: &[Json], one: fn(&Json) -> Result<T, String>) -> Result<Vec<T>, String> {
        data.iter().map(one).collect()
    }
    Ok(match dtype {
        DType::F16 | DType::Bf16 | DType::F32 | DType::F64 => {
            Tensor::from_f64s(&ty, all(data, number)?)
        }
        DType::I8 | DType::I16 | DType::I32 | DType::I64 | DType::U8 => {
            let values = all(data, integer)?;
            let (least, most) = dtype.int_range().unwrap_or((i64::MIN, i64::MAX));
            if let Some(n) = values.iter().find(|n| !(least..=most).contains(*n)) {
                return Err(format!("{n} is no {dtype}"));
            }
            Tensor::from_i64s(&ty, values)
        }
        DType::Bool => Tensor::new(&ty.shape, all(data, boolean)?),
        DType::String => Tensor::of(&ty.shape, Data::String(all(data, bytes)?)),
    })
}

/// Sizes: a list of numbers, or a tensor of them.
pub fn sizes(json: &Json) -> Result<Vec<usize>, String> {
    let values = match json {
        Json::Array(list) => list.iter().map(integer).collect::<Result<Vec<i64>, _>>()?,
        other => tensor(other)?.to_i64s(),
    };
    let size = |n: i64| usize::try_from(n).map_err(|_| format!("{n} is no size"));
    values.into_iter().map(size).collect()
}

/// A number, which may be infinite or NaN.
pub fn number(json: &Json) -> Result<f64, String> {
    match json {
        Json::Number(n) => n.as_f64(),
        Json::String(word) => match word.as_str() {
            "nan" => Some(f64::NAN),
            "inf" => Some(f64::INFINITY),
            "-inf" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
    .ok_or_else(|| format!("`{}` is no number", shortened(json)))
}

/// An integer.
pub fn integer(json: &Json) -> Result<i64, String> {
    json.as_i64()
        .ok_or_else(|| format!("`{}` is no integer", shortened(json)))
}

fn boolean(json: &Json) -> Result<bool, String> {
    json.as_bool()
        .ok_or_else(|| format!("`{}` is neither true nor false", shortened(json)))
}

fn bytes(json: &Json) -> Result<Vec<u8>, String> {
    let wrong = || format!("`{}` are no bytes in hex", shortened(json));
    let text = json
        .as_str()
        .filter(|t| t.len() % 2 == 0)
        .ok_or_else(wrong)?;
    let byte = |i: usize| {
        text.get(2 * i..2 * i + 2)
            .and_then(|pair| u8::from_str_radix(pair, 16).ok())
    };
    (0..text.len() / 2)
        .map(|i| byte(i).ok_or_else(wrong))
        .collect()
}

/// Tensors by name.
pub fn tensors(json: &Json) -> Result<BTreeMap<String, Tensor>, String> {
    let Json::Object(map) = json else {
        return Err("no object of tensors".to_owned());
    };
    let one = |(name, json): (&String, &Json)| Ok((name.clone(), tensor(json)?));
    map.iter().map(one).collect()
}

/// One step of a tensor of all steps.
pub fn row(tensor: &Tensor, step: usize) -> Tensor {
    let ty = Type::new(tensor.dtype(), &tensor.shape()[1..]);
    let n = ty.elements();
    match ty.dtype.is_float() {
        true => Tensor::from_f64s(
            &ty,
            tensor.to_f64s()[step * n..(step + 1) * n].iter().copied(),
        ),
        false => Tensor::from_i64s(
            &ty,
            tensor.to_i64s()[step * n..(step + 1) * n].iter().copied(),
        ),
    }
}
