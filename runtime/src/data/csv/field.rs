//! The text of a field as the value of a feature.

use trainspec_compiler::ir::graph::Type;
use trainspec_compiler::ir::{DType, Tensor, interp};
use trainspec_compiler::typed::Feature;

use crate::DataError;
use crate::data::values::{Value, bounded, tensor};

/// A feature and how it is read.
pub(super) struct Column<'a> {
    pub(super) feature: &'a Feature,
    pub(super) ty: Type,
    /// What stands in for each of its elements.
    pub(super) defaults: Option<Vec<Value>>,
}

impl Column<'_> {
    pub(super) fn has_default(&self) -> bool {
        self.defaults.is_some()
    }

    /// Reads the elements from their fields.
    pub(super) fn read<'f>(&self, field: &dyn Fn(usize) -> &'f [u8]) -> Result<Tensor, DataError> {
        let mut values = Vec::with_capacity(self.ty.elements());
        for i in 0..self.ty.elements() {
            let value = self.element(i, field(i)).map_err(|e| self.called(i, e))?;
            values.push(value);
        }
        Ok(tensor(&self.ty, values))
    }

    /// An error in one element, with the name of its column.
    fn called(&self, i: usize, error: DataError) -> DataError {
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
            return bounded(self.feature, defaults[i].clone());
        }
        if dtype == DType::String {
            return Ok(Value::Bytes(field.to_owned()));
        }
        let text = str::from_utf8(field.trim_ascii())
            .map_err(|_| DataError::new(format!("{} is not UTF-8", shown(field))))?;
        if text.is_empty() {
            let name = &self.feature.name;
            let help = format!(
                "a default stands in for what is missing: `feature {name}: {} = 0;`",
                self.ty
            );
            return Err(DataError::new("the value is missing").help(help));
        }
        let wrong = || DataError::new(format!("{} is no {dtype}", shown(field)));
        let large = || DataError::new(format!("{} is too large for {dtype}", shown(field)));
        let value = match dtype {
            DType::F16 | DType::Bf16 | DType::F32 | DType::F64 => {
                Value::Float(float(text, dtype).ok_or_else(wrong)?.ok_or_else(large)?)
            }
            DType::I8 | DType::I16 | DType::I32 | DType::I64 | DType::U8 => {
                let whole = text.trim_start_matches(['+', '-']);
                let digits = !whole.is_empty() && whole.bytes().all(|b| b.is_ascii_digit());
                let n: i64 = text
                    .parse()
                    .map_err(|_| if digits { large() } else { wrong() })?;
                let (low, high) = dtype.int_range().expect("it is an integer type");
                if !(low..=high).contains(&n) {
                    return Err(large());
                }
                Value::Int(n)
            }
            DType::Bool => match text {
                "1" => Value::Int(1),
                "0" => Value::Int(0),
                _ if text.eq_ignore_ascii_case("true") => Value::Int(1),
                _ if text.eq_ignore_ascii_case("false") => Value::Int(0),
                _ => return Err(wrong().help("a truth is `true` or `false`, `1` or `0`")),
            },
            DType::String => unreachable!("strings are taken as they are"),
        };
        bounded(self.feature, value)
    }
}

/// A field as errors show it.
fn shown(field: &[u8]) -> String {
    let text = String::from_utf8_lossy(field);
    let mut short: String = text.trim().chars().take(40).collect();
    if short.len() < text.trim().len() {
        short.push_str("...");
    }
    format!("`{}`", short.escape_debug())
}

/// A float, correctly rounded. The outer `None`: it is no number; the inner one: it lies beyond the largest.
fn float(text: &str, dtype: DType) -> Option<Option<f64>> {
    let wide: f64 = text.parse().ok()?;
    let rounded = match dtype {
        // Rounding twice could be off by one.
        DType::F32 => f64::from(text.parse::<f32>().ok()?),
        _ => interp::round(dtype, wide),
    };
    // Infinity that is written as such is meant.
    let meant = !text.bytes().any(|b| b.is_ascii_digit());
    Some((rounded.is_finite() || meant).then_some(rounded))
}
