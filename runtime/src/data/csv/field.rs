//! CSV fields parsed as elements of a feature's type (`tf.io.decode_csv`).

use std::sync::Arc;

use trainspec_compiler::ir::graph::Type;
use trainspec_compiler::ir::{DType, Tensor, interp};
use trainspec_compiler::typed::Feature;

use crate::DataError;
use crate::data::values::{Value, bounded, tensor};

/// A feature and its columns.
pub(super) struct Column {
    pub(super) name: Arc<str>,
    pub(super) feature: Feature,
    pub(super) ty: Type,
    /// The default of each element.
    pub(super) defaults: Option<Vec<Value>>,
    /// The fields that stand for a missing value, where the source lists them.
    pub(super) missing: Option<Vec<String>>,
}

impl Column {
    /// Cells for up to so many records.
    pub(super) fn cells(&self, records: usize) -> Cells {
        let capacity = records * self.ty.elements();
        match self.ty.dtype {
            DType::F32 => Cells::F32(Vec::with_capacity(capacity)),
            DType::F64 => Cells::F64(Vec::with_capacity(capacity)),
            DType::I64 => Cells::I64(Vec::with_capacity(capacity)),
            _ => Cells::Values(Vec::with_capacity(capacity)),
        }
    }

    /// Parses the elements of a record from their fields.
    pub(super) fn read<'f>(
        &self,
        field: &dyn Fn(usize) -> &'f [u8],
        cells: &mut Cells,
    ) -> Result<(), DataError> {
        for i in 0..self.ty.elements() {
            let own = field(i);
            if !self.is_listed(own) && cells.push(own, self.feature.bounds) {
                continue;
            }
            let value = self.element(i, own).map_err(|e| self.in_column(i, e))?;
            cells.push_value(value);
        }
        Ok(())
    }

    /// Adds the name of an element's column to an error.
    fn in_column(&self, i: usize, error: DataError) -> DataError {
        let key = &self.feature.key;
        let name = match (self.feature.columns.get(i), self.ty.shape.is_empty()) {
            (Some(column), _) => column.clone(),
            (None, true) => key.clone(),
            (None, false) => format!("{key}, value {i}"),
        };
        error.in_column(&name)
    }

    /// Whether the source lists a field among those that stand for a missing value.
    fn is_listed(&self, field: &[u8]) -> bool {
        let mut words = self.missing.iter().flatten();
        words.any(|word| word.as_bytes() == field.trim_ascii())
    }

    fn element(&self, i: usize, field: &[u8]) -> Result<Value, DataError> {
        let dtype = self.ty.dtype;
        let is_listed = self.is_listed(field);
        if is_listed && self.defaults.is_none() {
            match dtype {
                DType::F16 | DType::Bf16 | DType::F32 | DType::F64 => {
                    return Ok(Value::Float(f64::NAN));
                }
                DType::String => return Ok(Value::Bytes(Vec::new())),
                DType::I8 | DType::I16 | DType::I32 | DType::I64 | DType::U8 | DType::Bool => {
                    let message = match field.trim_ascii().is_empty() {
                        true => "the value is missing".to_owned(),
                        false => format!("the value is missing: it is {}", shown(field)),
                    };
                    let help = format!(
                        "{dtype} has no value for that: give a default, `feature {}: {} = 0;`, or read a float",
                        self.feature.name, self.ty
                    );
                    return Err(DataError::new(message).help(help));
                }
            }
        }
        if let (true, Some(defaults)) = (is_listed || field.trim_ascii().is_empty(), &self.defaults)
        {
            return bounded(&self.feature, defaults[i].clone());
        }
        if dtype == DType::String {
            return Ok(Value::Bytes(field.to_owned()));
        }
        let text = str::from_utf8(field.trim_ascii())
            .map_err(|_| DataError::new(format!("{} is not UTF-8", shown(field))))?;
        if text.is_empty() {
            let name = &self.feature.name;
            let help = match dtype.is_float() {
                true => format!(
                    "a default replaces a missing value: `feature {name}: {} = 0;`; or say `missing: [\"\"]` in the source, and it is NaN",
                    self.ty
                ),
                false => format!(
                    "a default replaces a missing value: `feature {name}: {} = 0;`",
                    self.ty
                ),
            };
            return Err(DataError::new("the value is missing").help(help));
        }
        let wrong = || {
            let error = DataError::new(format!("{} is no {dtype}", shown(field)));
            let missing = ["na", "n/a", "null", "none", "-", "?"];
            if dtype.is_float() && text.replacen(',', ".", 1).parse::<f64>().is_ok() {
                return error.help("numbers have a decimal point, and no decimal comma: write the file with points");
            }
            if dtype.is_int() && text.parse::<f64>().is_ok() {
                let name = &self.feature.name;
                return error.help(format!(
                    "read it as a float, and convert it: `feature {name}: {};` and `map {name} = cast({name}, {dtype});`",
                    self.feature.ty.with_dtype(DType::F64)
                ));
            }
            match missing.iter().any(|word| text.eq_ignore_ascii_case(word)) {
                true => error.help(format!(
                    "if it stands for a missing value, say so in the source: `missing: [\"{text}\"]`{}",
                    match dtype.is_float() {
                        true => "",
                        false => ", and give a default",
                    }
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

/// The elements of a column, of all records of a block.
pub(super) enum Cells {
    F32(Vec<f32>),
    F64(Vec<f64>),
    I64(Vec<i64>),
    /// Those of other types.
    Values(Vec<Value>),
}

impl Cells {
    /// Appends a number in the usual form; false where the field needs a closer look.
    fn push(&mut self, field: &[u8], bounds: Option<(i64, i64)>) -> bool {
        fn parse<T: std::str::FromStr>(field: &[u8]) -> Option<T> {
            str::from_utf8(field.trim_ascii()).ok()?.parse().ok()
        }
        match self {
            Cells::F32(cells) => {
                // A mantissa and a power of ten that are exact make a quotient that is rounded once (Clinger, 1990).
                let short = decimal(field).filter(|d| d.digits <= 1 << 24 && d.places <= 10);
                let short = short.map(|d| d.signed(d.digits as f32 / POWERS[d.places] as f32));
                match short.or_else(|| parse::<f32>(field).filter(|x| x.is_finite())) {
                    Some(x) => cells.push(x),
                    None => return false,
                }
            }
            Cells::F64(cells) => {
                let short = decimal(field).filter(|d| d.digits <= 1 << 53);
                let short = short.map(|d| d.signed(d.digits as f64 / POWERS[d.places]));
                match short.or_else(|| parse::<f64>(field).filter(|x| x.is_finite())) {
                    Some(x) => cells.push(x),
                    None => return false,
                }
            }
            Cells::I64(cells) => match parse::<i64>(field).filter(|_| bounds.is_none()) {
                Some(n) => cells.push(n),
                None => return false,
            },
            Cells::Values(_) => return false,
        }
        true
    }

    /// Keeps the first elements.
    pub(super) fn truncate(&mut self, elements: usize) {
        match self {
            Cells::F32(cells) => cells.truncate(elements),
            Cells::F64(cells) => cells.truncate(elements),
            Cells::I64(cells) => cells.truncate(elements),
            Cells::Values(cells) => cells.truncate(elements),
        }
    }

    fn push_value(&mut self, value: Value) {
        match (self, value) {
            (Cells::F32(cells), Value::Float(x)) => cells.push(x as f32),
            (Cells::F32(cells), Value::Int(n)) => cells.push(n as f32),
            (Cells::F64(cells), Value::Float(x)) => cells.push(x),
            (Cells::F64(cells), Value::Int(n)) => cells.push(n as f64),
            (Cells::I64(cells), Value::Int(n)) => cells.push(n),
            (Cells::Values(cells), value) => cells.push(value),
            (Cells::F32(_) | Cells::F64(_) | Cells::I64(_), _) => {
                unreachable!("a value has the kind of its feature")
            }
        }
    }

    /// The column of so many records.
    pub(super) fn stack(self, column: &Column, records: usize) -> Tensor {
        let shape = [&[records], &column.ty.shape[..]].concat();
        match self {
            Cells::F32(cells) => Tensor::new(&shape, cells),
            Cells::F64(cells) => Tensor::new(&shape, cells),
            Cells::I64(cells) => Tensor::new(&shape, cells),
            Cells::Values(cells) => tensor(&column.ty.with_shape(&shape), cells),
        }
    }
}

/// The powers of ten that an f64 has exactly; an f32 has the first eleven.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];

/// A decimal number without an exponent: its digits as an integer, and how many of them are after the point.
struct Decimal {
    is_negative: bool,
    digits: u64,
    places: usize,
}

impl Decimal {
    fn signed<T: std::ops::Neg<Output = T>>(&self, x: T) -> T {
        if self.is_negative { -x } else { x }
    }
}

/// A number of up to 19 digits and a point; `None` where it is written otherwise.
fn decimal(field: &[u8]) -> Option<Decimal> {
    let (is_negative, number) = match field {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, field),
    };
    // 19 digits fit 64 bits.
    if number.is_empty() || number.len() > 19 {
        return None;
    }
    let (mut digits, mut point) = (0, None);
    for (i, byte) in number.iter().enumerate() {
        match byte {
            b'0'..=b'9' => digits = digits * 10 + u64::from(byte - b'0'),
            b'.' if point.is_none() => point = Some(i),
            _ => return None,
        }
    }
    if point.is_some() && number.len() == 1 {
        return None;
    }
    Some(Decimal {
        is_negative,
        digits,
        places: point.map_or(0, |at| number.len() - 1 - at),
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_as_the_standard_library_rounds_them() {
        let key = trainspec_compiler::ir::philox::Key(7);
        for i in 0..20_000 {
            let words = key.block(i);
            let text = match i % 4 {
                0 => format!("{}", f32::from_bits(words[0])),
                1 => format!(
                    "{}.{}",
                    words[0] >> (words[1] % 32),
                    words[2] >> (words[3] % 32)
                ),
                2 => format!("-{:.6}", f64::from(words[0]) / 1e7),
                _ => format!("{}", words[0] >> 4),
            };
            let Ok(expected) = text.parse::<f32>() else {
                continue;
            };
            let mut cells = Cells::F32(Vec::new());
            if !expected.is_finite() {
                continue;
            }
            assert!(cells.push(text.as_bytes(), None), "{text}");
            let Cells::F32(found) = cells else {
                unreachable!()
            };
            assert_eq!(found[0].to_bits(), expected.to_bits(), "{text}");
            let mut cells = Cells::F64(Vec::new());
            assert!(cells.push(text.as_bytes(), None), "{text}");
            let Cells::F64(found) = cells else {
                unreachable!()
            };
            let expected: f64 = text.parse().unwrap();
            assert_eq!(found[0].to_bits(), expected.to_bits(), "{text}");
        }
        for text in [
            "", ".", "-", "-.", "1.2.3", "1e", "--1", "+-1", "1_000", "0x10",
        ] {
            assert!(
                !Cells::F32(Vec::new()).push(text.as_bytes(), None),
                "{text}"
            );
        }
        for (text, x) in [
            ("-0", -0.0_f32),
            ("5.", 5.0),
            (".5", 0.5),
            ("+2", 2.0),
            (" 3 ", 3.0),
        ] {
            let mut cells = Cells::F32(Vec::new());
            assert!(cells.push(text.as_bytes(), None), "{text}");
            let Cells::F32(found) = cells else {
                unreachable!()
            };
            assert_eq!(found[0].to_bits(), x.to_bits(), "{text}");
        }
    }
}
