//! CSV fields parsed as elements of a feature's type (`tf.io.decode_csv`).

use trainspec_compiler::ir::graph::Type;
use trainspec_compiler::ir::{DType, Tensor, interp};
use trainspec_compiler::typed::Feature;

use crate::DataError;
use crate::data::values::{Value, bounded, tensor};

/// A feature and its columns.
pub(super) struct Column {
    pub(super) feature: Feature,
    pub(super) ty: Type,
    /// The default of each element.
    pub(super) defaults: Option<Vec<Value>>,
}

impl Column {
    pub(super) fn has_default(&self) -> bool {
        self.defaults.is_some()
    }

    /// Parses the elements from their fields.
    pub(super) fn read<'f>(&self, field: &dyn Fn(usize) -> &'f [u8]) -> Result<Tensor, DataError> {
        let mut values = Vec::with_capacity(self.ty.elements());
        for i in 0..self.ty.elements() {
            let value = self
                .element(i, field(i))
                .map_err(|e| self.in_column(i, e))?;
            values.push(value);
        }
        Ok(tensor(&self.ty, values))
    }

    /// Adds the name of an element's column to an error.
    fn in_column(&self, i: usize, error: DataError) -> DataError {
        let key = &self.feature.key;
        let name = match self.ty.shape.is_empty() {
            true => key.clone(),
            false => format!("{key}, value {i}"),
        };
        error.in_column(&name)
    }

    fn element(&self, i: usize, field: &[u8]) -> Result<Value, DataError> {
        let dtype = self.ty.dtype;
        if let (true, Some(defaults)) = (field.trim_ascii().is_empty(), &self.defaults) {
            return bounded(&self.feature, defaults[i].clone());
        }
        if dtype == DType::String {
            return Ok(Value::Bytes(field.to_owned()));
        }
        let text = str::from_utf8(field.trim_ascii())
            .map_err(|_| DataError::new(format!("{} is not UTF-8", shown(field))))?;
        if text.is_empty() {
            let name = &self.feature.name;
            let help = format!(
                "a default replaces a missing value: `feature {name}: {} = 0;`",
                self.ty
            );
            return Err(DataError::new("the value is missing").help(help));
        }
        let wrong = || {
            let error = DataError::new(format!("{} is no {dtype}", shown(field)));
            let missing = ["na", "n/a", "null", "none", "-", "?"];
            match missing.iter().any(|word| text.eq_ignore_ascii_case(word)) {
                true => error.help(format!(
                    "if it stands for a missing value, leave the field empty and give a default: `feature {}: {} = 0;`",
                    self.feature.name, self.ty
                )),
                false => error,
            }
        };
        let out_of_range = || DataError::new(format!("{} is too large for {dtype}", shown(field)));
        let value = match dtype {
            DType::F16 | DType::Bf16 | DType::F32 | DType::F64 => Value::Float(
                float(text, dtype)
                    .ok_or_else(wrong)?
                    .ok_or_else(out_of_range)?,
            ),
            DType::I8 | DType::I16 | DType::I32 | DType::I64 | DType::U8 => {
                let unsigned = text.trim_start_matches(['+', '-']);
                let is_integer =
                    !unsigned.is_empty() && unsigned.bytes().all(|b| b.is_ascii_digit());
                let n: i64 = text
                    .parse()
                    .map_err(|_| if is_integer { out_of_range() } else { wrong() })?;
                let (low, high) = dtype.int_range().expect("it is an integer type");
                if !(low..=high).contains(&n) {
                    return Err(out_of_range());
                }
                Value::Int(n)
            }
            DType::Bool => match text {
                "1" => Value::Int(1),
                "0" => Value::Int(0),
                _ if text.eq_ignore_ascii_case("true") => Value::Int(1),
                _ if text.eq_ignore_ascii_case("false") => Value::Int(0),
                _ => return Err(wrong().help("a bool is `true` or `false`, `1` or `0`")),
            },
            DType::String => unreachable!("strings are taken as they are"),
        };
        bounded(&self.feature, value)
    }
}

/// A field as errors quote it.
fn shown(field: &[u8]) -> String {
    let text = String::from_utf8_lossy(field);
    let mut short: String = text.trim().chars().take(40).collect();
    if short.len() < text.trim().len() {
        short.push_str("...");
    }
    format!("`{}`", short.escape_debug())
}

/// A float, correctly rounded. The outer `None`: not a number; the inner one: overflow.
fn float(text: &str, dtype: DType) -> Option<Option<f64>> {
    let wide: f64 = text.parse().ok()?;
    let rounded = match dtype {
        // Double rounding could be off by one unit in the last place.
        DType::F32 => f64::from(text.parse::<f32>().ok()?),
        _ => interp::round(dtype, wide),
    };
    // A literal infinity is no overflow.
    let is_literal = !text.bytes().any(|b| b.is_ascii_digit());
    Some((rounded.is_finite() || is_literal).then_some(rounded))
}
