//! Elements of tensors, decoded by their dtype and formatted with the shortest round-trip digits.
//!
//! In: tensors of files. Out: numbers to compare, and elements formatted as text, CSV and JSON. Numbers have the fewest digits that identify
//! them in their type; but few readers know the types below 32 bits, so CSV and JSON have their exact values, with the fewest digits
//! that identify an `f64`. Leaves alone: the layout of a page.

use half::{bf16, f16};
use serde_json::{Value as Json, json};
use trainspec_formats::checkpoint::{DType, Elements, Tensor};

use crate::output::escape_controls;

/// The number of elements of a shape, saturating.
pub(crate) fn elements(shape: &[usize]) -> u64 {
    shape.iter().fold(1, |all, n| all.saturating_mul(*n as u64))
}

/// The size of the elements in bytes; `None` for types without a fixed size.
pub(crate) fn size(dtype: DType, shape: &[usize]) -> Option<u64> {
    let size = dtype.size()? as u64;
    Some(elements(shape).saturating_mul(size))
}

/// The value of an element.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Number {
    Integer(i128),
    Real(f64),
    Complex(f64, f64),
}

/// The value of an element from its little-endian bytes. Panics for types that are no numbers.
pub(crate) fn number(dtype: DType, bytes: &[u8]) -> Number {
    let integer = Number::Integer;
    match dtype {
        DType::Float32 => Number::Real(f64::from(f32::from_le_bytes(word(bytes)))),
        DType::Float64 => Number::Real(f64::from_le_bytes(word(bytes))),
        DType::Complex64 => Number::Complex(
            f64::from(f32::from_le_bytes(word(&bytes[..4]))),
            f64::from(f32::from_le_bytes(word(&bytes[4..]))),
        ),
        DType::Complex128 => Number::Complex(
            f64::from_le_bytes(word(&bytes[..8])),
            f64::from_le_bytes(word(&bytes[8..])),
        ),
        DType::Bool | DType::UInt8 | DType::QUInt8 => integer(bytes[0].into()),
        DType::Int8 | DType::QInt8 => integer((bytes[0] as i8).into()),
        DType::Int16 | DType::QInt16 => integer(i16::from_le_bytes(word(bytes)).into()),
        DType::UInt16 | DType::QUInt16 => integer(u16::from_le_bytes(word(bytes)).into()),
        DType::Int32 | DType::QInt32 => integer(i32::from_le_bytes(word(bytes)).into()),
        DType::UInt32 => integer(u32::from_le_bytes(word(bytes)).into()),
        DType::Int64 => integer(i64::from_le_bytes(word(bytes)).into()),
        DType::UInt64 => integer(u64::from_le_bytes(word(bytes)).into()),
        // The low bits hold the value; those of signed types are sign-extended.
        DType::Int4 => integer(((bytes[0] << 4) as i8 >> 4).into()),
        DType::Int2 => integer(((bytes[0] << 6) as i8 >> 6).into()),
        DType::UInt4 => integer((bytes[0] & 15).into()),
        DType::UInt2 => integer((bytes[0] & 3).into()),
        DType::Float16
        | DType::BFloat16
        | DType::Float8E5M2
        | DType::Float8E4M3Fn
        | DType::Float8E4M3Fnuz
        | DType::Float8E4M3B11Fnuz
        | DType::Float8E5M2Fnuz
        | DType::Float4E2M1Fn => Number::Real(narrow_real(dtype, bits(bytes))),
        DType::String | DType::Variant | DType::Resource => {
            unreachable!("elements of {dtype} are no numbers")
        }
    }
}

/// Formats the elements of a tensor.
#[derive(Debug)]
pub(crate) struct FormattedElements<'a> {
    tensor: &'a Tensor,
    /// A lookup table for types of one byte.
    table: Vec<Digits>,
}

/// The digits of an element.
#[derive(Debug, Clone)]
enum Digits {
    One(String),
    Complex(String, String),
}

impl<'a> FormattedElements<'a> {
    pub(crate) fn new(tensor: &'a Tensor) -> FormattedElements<'a> {
        let table = match tensor.dtype().size() {
            Some(1) => (0..=255).map(|b| digits(tensor.dtype(), &[b])).collect(),
            _ => Vec::new(),
        };
        FormattedElements { tensor, table }
    }

    /// The number of elements.
    pub(crate) fn count(&self) -> usize {
        match self.tensor.elements() {
            Elements::Bytes(bytes) => bytes.len() / self.tensor.dtype().size().unwrap_or(1),
            Elements::Strings(strings) => strings.len(),
        }
    }

    /// An element as text; of a string at most `longest` characters.
    pub(crate) fn readable(&self, i: usize, longest: usize) -> String {
        match self.tensor.elements() {
            Elements::Strings(strings) => readable(&strings[i], longest),
            Elements::Bytes(_) => self.digits(i).joined(),
        }
    }

    /// An element as a field of CSV, a number with its exact value.
    pub(crate) fn csv(&self, i: usize) -> Vec<u8> {
        let Elements::Strings(strings) = self.tensor.elements() else {
            return self.exact_digits(i).joined().into_bytes();
        };
        let mut field = vec![b'"'];
        for &byte in &strings[i] {
            field.push(byte);
            if byte == b'"' {
                field.push(byte);
            }
        }
        field.push(b'"');
        field
    }

    /// An element as JSON: a number with its exact value, a bool, a pair for a complex number, or a string. NaN and infinities are the
    /// strings `NaN`, `Infinity` and `-Infinity`; a string that is not UTF-8 is an object with `hex`.
    pub(crate) fn json(&self, i: usize) -> String {
        if let Elements::Strings(strings) = self.tensor.elements() {
            return escape_controls(&json_bytes(&strings[i]).to_string()).into_owned();
        }
        match self.exact_digits(i) {
            Digits::One(digits) => json_number(&digits),
            Digits::Complex(real, imaginary) => {
                format!("[{},{}]", json_number(&real), json_number(&imaginary))
            }
        }
    }

    fn digits(&self, i: usize) -> Digits {
        let (dtype, bytes) = (self.tensor.dtype(), self.tensor.bytes());
        match dtype.size().unwrap_or(1) {
            1 => self.table[usize::from(bytes[i])].clone(),
            size => digits(dtype, &bytes[i * size..][..size]),
        }
    }

    /// The digits for a reader that does not know the type: those of `float16` and `bfloat16` are exact, as all others are already.
    fn exact_digits(&self, i: usize) -> Digits {
        let dtype = self.tensor.dtype();
        match (dtype, dtype.size()) {
            (DType::Float16 | DType::BFloat16, Some(size)) => {
                let bits = bits(&self.tensor.bytes()[i * size..][..size]);
                Digits::One(real(narrow_real(dtype, bits)))
            }
            _ => self.digits(i),
        }
    }
}

impl Digits {
    fn joined(self) -> String {
        match self {
            Digits::One(digits) => digits,
            Digits::Complex(real, imaginary) => {
                let sign = if imaginary.starts_with('-') { "" } else { "+" };
                format!("{real}{sign}{imaginary}j")
            }
        }
    }
}

/// A string as JSON, or an object with `hex` if it is not UTF-8.
pub(crate) fn json_bytes(bytes: &[u8]) -> Json {
    match std::str::from_utf8(bytes) {
        Ok(text) => json!(text),
        Err(_) => {
            let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
            json!({ "hex": hex })
        }
    }
}

/// A `float32` as JSON, with its shortest digits.
pub(crate) fn json_short(value: f32) -> Json {
    parsed(&json_number(&short(value)))
}

/// A number as JSON: integers exactly, NaN and infinities as strings.
pub(crate) fn json_of(number: Number) -> Json {
    match number {
        Number::Integer(n) => parsed(&n.to_string()),
        Number::Real(value) => parsed(&json_real(value)),
        Number::Complex(a, b) => json!([parsed(&json_real(a)), parsed(&json_real(b))]),
    }
}

fn parsed(text: &str) -> Json {
    serde_json::from_str(text).unwrap_or(Json::Null)
}

/// A real number as JSON; NaN and infinities as strings.
pub(crate) fn json_real(value: f64) -> String {
    json_number(&real(value))
}

/// The shortest round-trip digits of a value.
pub(crate) fn real(value: f64) -> String {
    match value.is_nan() {
        true => "nan".to_owned(),
        false => format!("{value:?}"),
    }
}

/// A dtype and a shape as text: `float32 [3, 4]`.
pub(crate) fn typed(dtype: DType, shape: &[usize]) -> String {
    format!("{dtype} {shape:?}")
}

/// Digits as JSON, which has neither NaN nor infinities.
fn json_number(digits: &str) -> String {
    match digits {
        "nan" => "\"NaN\"".to_owned(),
        "inf" => "\"Infinity\"".to_owned(),
        "-inf" => "\"-Infinity\"".to_owned(),
        digits => digits.to_owned(),
    }
}

/// The shortest round-trip digits of an f32.
fn short(value: f32) -> String {
    match value.is_nan() {
        true => "nan".to_owned(),
        false => format!("{value:?}"),
    }
}

fn digits(dtype: DType, bytes: &[u8]) -> Digits {
    Digits::One(match (dtype, number(dtype, bytes)) {
        (DType::Bool, Number::Integer(0)) => "false".to_owned(),
        // Readers take any other byte for true, too.
        (DType::Bool, _) => "true".to_owned(),
        (_, Number::Integer(n)) => n.to_string(),
        (DType::Complex64, Number::Complex(a, b)) => {
            return Digits::Complex(short(a as f32), short(b as f32));
        }
        (_, Number::Complex(a, b)) => return Digits::Complex(real(a), real(b)),
        (DType::Float32, Number::Real(value)) => short(value as f32),
        (DType::Float16 | DType::BFloat16, Number::Real(value)) => {
            half_digits(dtype, bits(bytes), value)
        }
        // Of the types of eight bits and fewer, too, for which the shortest digits would be far off: 60000 for 57344.
        (_, Number::Real(value)) => real(value),
    })
}

/// The shortest round-trip digits of a float of 16 bits: nearer to it than to its neighbours in its type.
fn half_digits(dtype: DType, bits: u16, value: f64) -> String {
    if !value.is_finite() || value == 0.0 {
        return real(value);
    }
    let sign = sign_of(dtype);
    let magnitude = bits & (sign - 1);
    let size = value.abs();
    let below = (narrow_real(dtype, magnitude - 1) + size) / 2.0;
    let next = magnitude + 1;
    let above = match next < sign {
        true => narrow_real(dtype, next),
        false => f64::NAN,
    };
    let above = match above.is_finite() {
        true => (size + above) / 2.0,
        false => size + (size - below),
    };
    let even = magnitude.is_multiple_of(2);
    let rounds_to_it = |x: f64| (below < x && x < above) || (even && (x == below || x == above));
    let parsed = |text: String| text.parse::<f64>().ok().filter(|&x| rounds_to_it(x));
    for places in 0..17 {
        let text = format!("{size:.places$e}");
        // The interval above a power of two is wider than below it, so the next decimal may fit where the nearest does not.
        let next = text.split_once('e').and_then(|(digits, exponent)| {
            let digits: u64 = digits.replace('.', "").parse().ok()?;
            let exponent = exponent.parse::<i32>().ok()? - places as i32;
            Some(format!("{}e{exponent}", digits + 1))
        });
        if let Some(found) = parsed(text).or_else(|| next.and_then(parsed)) {
            return real(found.copysign(value));
        }
    }
    real(value)
}

/// The mask of the sign bit.
fn sign_of(dtype: DType) -> u16 {
    match dtype {
        DType::Float16 | DType::BFloat16 => 0x8000,
        DType::Float4E2M1Fn => 0x8,
        _ => 0x80,
    }
}

/// The value of a float of at most 16 bits.
fn narrow_real(dtype: DType, bits: u16) -> f64 {
    // Bits of the mantissa, bias of the exponent, and the magnitudes from which on values are infinite and NaN.
    let (fraction, bias, infinity, nan) = match dtype {
        DType::Float16 => return f16::from_bits(bits).to_f64(),
        DType::BFloat16 => return bf16::from_bits(bits).to_f64(),
        DType::Float8E5M2 => (2, 15, 0x7c, 0x7d),
        DType::Float8E4M3Fn => (3, 7, 0x100, 0x7f),
        DType::Float8E4M3Fnuz => (3, 8, 0x100, 0x100),
        DType::Float8E4M3B11Fnuz => (3, 11, 0x100, 0x100),
        DType::Float8E5M2Fnuz => (2, 16, 0x100, 0x100),
        DType::Float4E2M1Fn => (1, 1, 0x100, 0x100),
        other => unreachable!("{other} is no narrow float"),
    };
    let sign = sign_of(dtype);
    let magnitude = bits & (sign - 1);
    // The `fnuz` types have a single NaN, encoded as minus zero.
    let is_fnuz = matches!(
        dtype,
        DType::Float8E4M3Fnuz | DType::Float8E4M3B11Fnuz | DType::Float8E5M2Fnuz
    );
    if magnitude >= nan || (is_fnuz && bits & 0xff == 0x80) {
        return f64::NAN;
    }
    let value = match magnitude >> fraction {
        _ if magnitude >= infinity => f64::INFINITY,
        0 => f64::from(magnitude) * 2.0_f64.powi(1 - bias - fraction),
        exponent => {
            let one = 1 << fraction;
            let digits = f64::from(magnitude % one + one);
            digits * 2.0_f64.powi(i32::from(exponent) - bias - fraction)
        }
    };
    match bits & sign {
        0 => value,
        _ => -value,
    }
}

/// The bits of an element of one or two bytes.
fn bits(bytes: &[u8]) -> u16 {
    match *bytes {
        [low, high] => u16::from_le_bytes([low, high]),
        _ => bytes[0].into(),
    }
}

/// Bytes as an array; their number must be N.
fn word<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut word = [0; N];
    word.copy_from_slice(bytes);
    word
}

/// A string in quotes, escaped, cut after `longest` characters.
fn readable(string: &[u8], longest: usize) -> String {
    let quoted = match std::str::from_utf8(string) {
        Ok(text) => format!("\"{}\"", text.escape_debug()),
        Err(_) => format!("b\"{}\"", string.escape_ascii()),
    };
    match quoted.char_indices().nth(longest) {
        Some((end, _)) => format!("{}... ({} bytes)", &quoted[..end], string.len()),
        None => quoted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(dtype: DType, bits: u16) -> String {
        let bytes = bits.to_le_bytes();
        digits(dtype, &bytes[..dtype.size().unwrap()]).joined()
    }

    #[test]
    fn every_half_is_identified_by_its_digits() {
        for bits in 0..=u16::MAX {
            let half = f16::from_bits(bits);
            let back: f64 = text(DType::Float16, bits).parse().unwrap();
            assert_eq!(f16::from_f64(back).is_nan(), half.is_nan());
            assert!(half.is_nan() || f16::from_f64(back).to_bits() == bits);
            let half = bf16::from_bits(bits);
            let back: f32 = text(DType::BFloat16, bits).parse().unwrap();
            let found = bf16::from_f32(back).to_bits();
            assert!(half.is_nan() || found == bits, "{back} {found} {bits}");
        }
    }

    #[test]
    fn csv_and_json_have_the_exact_values_of_narrow_floats() {
        for dtype in [
            DType::Float16,
            DType::BFloat16,
            DType::Float8E5M2,
            DType::Float8E4M3Fn,
            DType::Float8E4M3Fnuz,
            DType::Float8E4M3B11Fnuz,
            DType::Float8E5M2Fnuz,
            DType::Float4E2M1Fn,
        ] {
            let size = dtype.size().unwrap();
            let count = if size == 1 { 1 << 8 } else { 1 << 16 };
            let bytes = (0..count).flat_map(|bits: u32| bits.to_le_bytes()[..size].to_vec());
            let bytes: Vec<u8> = bytes.collect();
            let tensor = Tensor::new(dtype, &[count as usize], bytes.clone()).unwrap();
            let elements = FormattedElements::new(&tensor);
            for (i, bytes) in bytes.chunks(size).enumerate() {
                let Number::Real(value) = number(dtype, bytes) else {
                    panic!("{dtype} is a float");
                };
                let csv: f64 = str::from_utf8(&elements.csv(i)).unwrap().parse().unwrap();
                let is_same = csv.to_bits() == value.to_bits() || csv.is_nan() && value.is_nan();
                assert!(is_same, "{dtype} {i}: {csv} and {value}");
                assert_eq!(elements.json(i), json_real(value));
            }
        }
    }

    // What `str(numpy.float16(x))` and `str(ml_dtypes.bfloat16(x))` name, with as few digits.
    #[test]
    fn floats_of_sixteen_bits_have_few_digits() {
        assert_eq!(text(DType::Float16, f16::from_f64(0.1).to_bits()), "0.1");
        assert_eq!(text(DType::Float16, 1), "6e-8");
        assert_eq!(text(DType::Float16, 0x7bff), "65500.0");
        assert_eq!(text(DType::Float16, 0x8000), "-0.0");
        assert_eq!(
            text(DType::BFloat16, bf16::from_f64(3.25).to_bits()),
            "3.25"
        );
        assert_eq!(text(DType::BFloat16, bf16::from_f64(0.1).to_bits()), "0.1");
        assert_eq!(text(DType::BFloat16, 0xff80), "-inf");
    }

    // The largest and the smallest numbers are those of the types' definitions.
    #[test]
    fn floats_of_eight_bits_have_their_ranges() {
        for (dtype, largest, smallest) in [
            (DType::Float8E5M2, (0x7b, 57344.0), 2.0_f64.powi(-16)),
            (DType::Float8E4M3Fn, (0x7e, 448.0), 2.0_f64.powi(-9)),
            (DType::Float8E4M3Fnuz, (0x7f, 240.0), 2.0_f64.powi(-10)),
            (DType::Float8E4M3B11Fnuz, (0x7f, 30.0), 2.0_f64.powi(-13)),
            (DType::Float8E5M2Fnuz, (0x7f, 57344.0), 2.0_f64.powi(-17)),
            (DType::Float4E2M1Fn, (0x7, 6.0), 0.5),
        ] {
            assert_eq!(narrow_real(dtype, largest.0), largest.1, "{dtype}");
            assert_eq!(narrow_real(dtype, 1), smallest, "{dtype}");
        }
        assert_eq!(text(DType::Float8E5M2, 0x7b), "57344.0");
        assert_eq!(text(DType::Float8E5M2, 0xfc), "-inf");
        assert_eq!(text(DType::Float8E4M3Fn, 0xff), "nan");
        assert_eq!(text(DType::Float8E4M3Fnuz, 0x80), "nan");
        assert_eq!(text(DType::Int4, 0xf), "-1");
    }

    #[test]
    fn long_strings_are_cut_and_odd_ones_escaped() {
        assert_eq!(readable("a\u{1b}\"ü".as_bytes(), 100), r#""a\u{1b}\"ü""#);
        assert_eq!(readable(b"\xff\0", 100), r#"b"\xff\x00""#);
        assert_eq!(readable(b"abcdef", 3), "\"ab... (6 bytes)");
    }
}
