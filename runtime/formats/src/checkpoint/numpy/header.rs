//! The `npy` header: a magic number, a version, and a Python dictionary literal (`descr`, `fortran_order`, `shape`).

use std::io::Read;

use crate::error::{Code, FileKind, FormatError, Result};
use crate::tensor::{DType, count, rank_error};

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// The maximum size of a header. NumPy itself refuses more than 10000 bytes by default.
const MAX_HEADER_BYTES: usize = 65_536;

/// A decoded header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) form: Form,
    /// Column-major (Fortran) order.
    pub(super) fortran: bool,
    pub(super) shape: Vec<usize>,
    /// The size of the header in bytes, with magic number and version.
    pub(super) length: usize,
}

/// The storage of elements (`descr`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// A number, big-endian or little-endian.
    Number { dtype: DType, swapped: bool },
    /// Byte strings of this length, padded with zeros (`S`).
    Bytes(usize),
    /// Unicode strings of this many four-byte characters, padded with zeros (`U`).
    Characters { count: usize, swapped: bool },
}

impl Header {
    /// Reads a header.
    pub(super) fn read(from: &mut impl Read) -> Result<Header> {
        let mut start = [0; 8];
        fill(from, &mut start)?;
        if &start[..6] != MAGIC {
            return Err(loss("it does not begin with the magic number of an array"));
        }
        let (size, before) = match start[6] {
            1 => {
                let mut size = [0; 2];
                fill(from, &mut size)?;
                (usize::from(u16::from_le_bytes(size)), 10)
            }
            2 | 3 => {
                let mut size = [0; 4];
                fill(from, &mut size)?;
                (u32::from_le_bytes(size) as usize, 12)
            }
            other => {
                return Err(FormatError::new(
                    Code::Unimplemented,
                    FileKind::Numpy,
                    format!("version {other} of the format"),
                ));
            }
        };
        if size > MAX_HEADER_BYTES {
            return Err(loss(format!("a header of {size} bytes")));
        }
        let mut text = vec![0; size];
        fill(from, &mut text)?;
        let text = String::from_utf8(text).map_err(|_| loss("the header is not UTF-8"))?;
        parse(&text, before + size)
    }

    /// Reads the header of a member of `size` bytes that may be no array: to NumPy it is one if it begins with the magic number.
    pub(super) fn read_if_array(from: &mut impl Read, size: u64) -> Result<Header> {
        let mut start = [0; MAGIC.len()];
        let known = MAGIC.len().min(usize::try_from(size).unwrap_or(usize::MAX));
        fill(from, &mut start[..known])?;
        match start == *MAGIC {
            true => Header::read(&mut (&start[..]).chain(from)),
            false => Err(FormatError::new(
                Code::Unimplemented,
                FileKind::Numpy,
                "it is no array",
            )),
        }
    }

    /// The dtype of the tensor that the array becomes.
    pub(super) fn dtype(&self) -> DType {
        match self.form {
            Form::Number { dtype, .. } => dtype,
            Form::Bytes(_) | Form::Characters { .. } => DType::String,
        }
    }

    /// The size of the elements in bytes.
    pub(super) fn bytes(&self) -> Result<usize> {
        let size = match self.form {
            Form::Number { dtype, .. } => dtype.size(),
            Form::Bytes(size) => Some(size),
            Form::Characters { count, .. } => count.checked_mul(4),
        };
        let total = count(&self.shape)
            .zip(size)
            .and_then(|(n, s)| n.checked_mul(s));
        total.ok_or_else(|| loss(format!("an array of shape {:?} is too large", self.shape)))
    }

    /// The bytes of a header of version 1.0: the headers of tensors of at most 254 dimensions fit.
    pub(super) fn encode(form: &str, shape: &[usize]) -> Vec<u8> {
        let sizes: Vec<String> = shape.iter().map(|size| size.to_string()).collect();
        let shape = match &sizes[..] {
            [one] => format!("({one},)"),
            many => format!("({})", many.join(", ")),
        };
        let text = format!("{{'descr': '{form}', 'fortran_order': False, 'shape': {shape}, }}");
        let before = MAGIC.len() + 4;
        // With the line feed, the total is a multiple of 64 bytes.
        let size = (before + text.len() + 1).next_multiple_of(64) - before;
        let mut out = MAGIC.to_vec();
        out.extend([1, 0]);
        out.extend((size as u16).to_le_bytes());
        out.extend(text.bytes());
        out.resize(before + size - 1, b' ');
        out.push(b'\n');
        out
    }
}

/// NumPy's `descr` of a numeric type; `None` for types that it does not have.
pub(super) fn name_of(dtype: DType) -> Option<&'static str> {
    Some(match dtype {
        DType::Bool => "|b1",
        DType::Int8 => "|i1",
        DType::UInt8 => "|u1",
        DType::Int16 => "<i2",
        DType::UInt16 => "<u2",
        DType::Int32 => "<i4",
        DType::UInt32 => "<u4",
        DType::Int64 => "<i8",
        DType::UInt64 => "<u8",
        DType::Float16 => "<f2",
        DType::Float32 => "<f4",
        DType::Float64 => "<f8",
        DType::Complex64 => "<c8",
        DType::Complex128 => "<c16",
        _ => return None,
    })
}

/// Whether NumPy has arrays of a type: numbers, and strings that do not end in a zero, which [`check`](super::check) tests.
pub fn holds(dtype: DType) -> bool {
    dtype == DType::String || name_of(dtype).is_some()
}

fn form_of(name: &str) -> Result<Form> {
    let unknown = || {
        FormatError::new(
            Code::Unimplemented,
            FileKind::Numpy,
            format!("elements of type `{name}`"),
        )
    };
    let order = name
        .chars()
        .next()
        .filter(char::is_ascii)
        .ok_or_else(unknown)?;
    let kind = match order {
        '<' | '>' | '|' | '=' => &name[1..],
        _ => name,
    };
    let swapped = order == '>';
    let (letter, size) = kind
        .split_at_checked(1)
        .and_then(|(letter, size)| Some((letter, size.parse::<usize>().ok()?)))
        .ok_or_else(unknown)?;
    match letter {
        "S" | "a" => return Ok(Form::Bytes(size)),
        "U" => {
            return Ok(Form::Characters {
                count: size,
                swapped,
            });
        }
        _ => {}
    }
    DType::all()
        .find(|&dtype| name_of(dtype).is_some_and(|known| &known[1..] == kind))
        .map(|dtype| Form::Number { dtype, swapped })
        .ok_or_else(unknown)
}

/// Parses the dictionary literal, whose keys and types of values are fixed.
fn parse(text: &str, length: usize) -> Result<Header> {
    let mut literal = Literal { rest: text };
    let broken = || loss("the header is no dictionary of an array");
    let (mut form, mut fortran, mut shape) = (None, None, None);
    literal.eat('{').ok_or_else(broken)?;
    while literal.eat('}').is_none() {
        let key = literal.string().ok_or_else(broken)?;
        literal.eat(':').ok_or_else(broken)?;
        match key {
            "descr" => match literal.string() {
                Some(name) => form = Some(form_of(name)?),
                None => {
                    return Err(FormatError::new(
                        Code::Unimplemented,
                        FileKind::Numpy,
                        "an array of records",
                    ));
                }
            },
            "fortran_order" => fortran = Some(literal.boolean().ok_or_else(broken)?),
            "shape" => shape = Some(literal.tuple().ok_or_else(broken)?),
            _ => return Err(broken()),
        }
        if literal.eat(',').is_none() {
            literal.eat('}').ok_or_else(broken)?;
            break;
        }
    }
    literal.skip();
    if let Some(cause) = shape.as_ref().and_then(|s: &Vec<_>| rank_error(s.len())) {
        return Err(loss(cause));
    }
    match (form, fortran, shape, literal.rest) {
        (Some(form), Some(fortran), Some(shape), "") => Ok(Header {
            form,
            fortran,
            shape,
            length,
        }),
        _ => Err(broken()),
    }
}

struct Literal<'a> {
    rest: &'a str,
}

impl<'a> Literal<'a> {
    fn skip(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn eat(&mut self, c: char) -> Option<()> {
        self.skip();
        self.rest = self.rest.strip_prefix(c)?;
        Some(())
    }

    fn string(&mut self) -> Option<&'a str> {
        self.skip();
        let quote = self
            .rest
            .chars()
            .next()
            .filter(|c| matches!(c, '\'' | '"'))?;
        let (text, rest) = self.rest[1..].split_once(quote)?;
        self.rest = rest;
        Some(text)
    }

    fn boolean(&mut self) -> Option<bool> {
        self.skip();
        for (word, value) in [("True", true), ("False", false)] {
            if let Some(rest) = self.rest.strip_prefix(word) {
                self.rest = rest;
                return Some(value);
            }
        }
        None
    }

    fn tuple(&mut self) -> Option<Vec<usize>> {
        self.eat('(')?;
        let mut sizes = Vec::new();
        while self.eat(')').is_none() {
            self.skip();
            let end = self.rest.find(|c: char| !c.is_ascii_digit())?;
            let (digits, rest) = self.rest.split_at(end);
            sizes.push(digits.parse().ok()?);
            // An old Python wrote an `L` after long numbers.
            self.rest = rest.strip_prefix('L').unwrap_or(rest);
            if self.eat(',').is_none() {
                self.eat(')')?;
                break;
            }
        }
        Some(sizes)
    }
}

fn fill(from: &mut impl Read, bytes: &mut [u8]) -> Result<()> {
    from.read_exact(bytes)
        .map_err(|e| FormatError::io(FileKind::Numpy, "read the header", e))
}

fn loss(cause: impl Into<String>) -> FormatError {
    FormatError::data_loss(FileKind::Numpy, cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_round_trip() {
        for shape in [&[][..], &[3], &[3, 4], &[0, 7, 1]] {
            let bytes = Header::encode("<f4", shape);
            assert_eq!(bytes.len() % 64, 0);
            let header = Header::read(&mut &bytes[..]).unwrap();
            assert_eq!(header.shape, shape);
            assert_eq!(header.length, bytes.len());
            assert_eq!(header.dtype(), DType::Float32);
        }
        let most = vec![usize::MAX; 254];
        let bytes = Header::encode("<f4", &most);
        assert_eq!(Header::read(&mut &bytes[..]).unwrap().shape, most);
        // Version 2.0 has four bytes for the length.
        let mut second = bytes.clone();
        second[6] = 2;
        second.splice(10..10, [0, 0]);
        assert_eq!(Header::read(&mut &second[..]).unwrap().shape, most);
        let bytes = Header::encode("<f4", &[1; 255]);
        assert!(Header::read(&mut &bytes[..]).is_err());
    }

    #[test]
    fn invalid_headers_are_refused() {
        for text in [
            "",
            "{}",
            "{'descr': '<f4', 'fortran_order': False}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (3,}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (-3,)}",
            "{'descr': '<f4', 'fortran_order': maybe, 'shape': (3,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), 'more': 1}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)} x",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
            "{'descr': '|O', 'fortran_order': False, 'shape': (3,)}",
            "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,)}",
            "{'descr': 'é', 'fortran_order': False, 'shape': (3,)}",
        ] {
            assert!(parse(text, 0).is_err(), "{text}");
        }
    }
}
