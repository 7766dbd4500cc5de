//! Tensors of the reference data.

use half::{bf16, f16};
use serde_json::Value as Json;
use trainspec_formats::tensor::{BytesColumn, DType, Tensor};

/// The fields of an object, each of which must be taken.
pub struct Fields<'a> {
    what: String,
    left: std::collections::BTreeMap<&'a str, &'a Json>,
}

impl<'a> Fields<'a> {
    pub fn new(what: impl Into<String>, json: &'a Json) -> Fields<'a> {
        let what = what.into();
        let object = json.as_object().unwrap_or_else(|| panic!("{what}: {json}"));
        let left = object.iter().map(|(key, value)| (key.as_str(), value));
        Fields {
            what,
            left: left.collect(),
        }
    }

    pub fn take(&mut self, name: &str) -> Option<&'a Json> {
        self.left.remove(name)
    }

    pub fn need(&mut self, name: &str) -> &'a Json {
        self.take(name)
            .unwrap_or_else(|| panic!("{}: no `{name}`", self.what))
    }

    pub fn text(&mut self, name: &str) -> &'a str {
        let value = self.need(name);
        value
            .as_str()
            .unwrap_or_else(|| panic!("{}: `{name}` is {value}", self.what))
    }

    /// A field that a test has no use for, by name.
    pub fn ignore(&mut self, name: &str) {
        self.take(name);
    }

    pub fn end(self) {
        assert!(
            self.left.is_empty(),
            "{}: unknown fields {:?}",
            self.what,
            self.left.keys()
        );
    }
}

pub fn shape(json: &Json) -> Vec<usize> {
    let sizes = json.as_array().expect("a shape").iter();
    sizes
        .map(|size| size.as_u64().expect("a size") as usize)
        .collect()
}

pub fn dtype(json: &Json) -> DType {
    let name = json.as_str().expect("a type");
    DType::from_name(name).unwrap_or_else(|| panic!("the type {name}"))
}

/// The tensor that a JSON object states.
pub fn tensor(what: &str, json: &Json) -> Tensor {
    let mut fields = Fields::new(what, json);
    let (dtype, shape) = (dtype(fields.need("dtype")), shape(fields.need("shape")));
    let made = match dtype {
        DType::String => {
            let strings = fields.need("data_hex").as_array().expect("strings");
            let strings: BytesColumn = strings.iter().map(crate::support::bytes).collect();
            Tensor::strings(&shape, strings)
        }
        _ => {
            let data = fields.need("data").as_array().expect("elements");
            let bytes = data.iter().flat_map(|value| element(dtype, value));
            Tensor::new(dtype, &shape, bytes.collect())
        }
    };
    fields.end();
    made.unwrap_or_else(|e| panic!("{what}: {e}"))
}

/// Whether two tensors are equal, where all NaNs are equal.
pub fn same(a: &Tensor, b: &Tensor) -> bool {
    if a == b {
        return true;
    }
    let alike = a.dtype() == b.dtype() && a.shape() == b.shape();
    match (a.to_f64s(), b.to_f64s()) {
        (Ok(x), Ok(y)) if alike && a.dtype().name().contains("float") => x
            .into_iter()
            .zip(y)
            .all(|(x, y)| x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan()),
        _ => false,
    }
}

fn element(dtype: DType, value: &Json) -> Vec<u8> {
    let float = || match value {
        Json::String(text) => text.parse::<f64>().expect("a number that is not finite"),
        other => other.as_f64().expect("a number"),
    };
    let integer = || value.as_i64().expect("an integer");
    match dtype {
        DType::Float32 | DType::Complex64 => (float() as f32).to_le_bytes().to_vec(),
        DType::Float64 | DType::Complex128 => float().to_le_bytes().to_vec(),
        DType::Float16 => f16::from_f64(float()).to_le_bytes().to_vec(),
        DType::BFloat16 => bf16::from_f64(float()).to_le_bytes().to_vec(),
        DType::Bool => vec![u8::from(value.as_bool().expect("a boolean"))],
        DType::UInt64 => value.as_u64().expect("an integer").to_le_bytes().to_vec(),
        _ => {
            let size = dtype.size().expect("a type of numbers");
            integer().to_le_bytes()[..size].to_vec()
        }
    }
}
