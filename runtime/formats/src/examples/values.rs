//! Columns of values in contiguous memory.

use super::schema::Dtype;
use crate::error::{FileKind, Result};
use crate::memory;
use crate::tensor::BytesColumn;

/// Values of one type.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Floats of 32 bits.
    Float(Vec<f32>),
    /// Integers of 64 bits.
    Int64(Vec<i64>),
    /// Byte strings.
    Bytes(BytesColumn),
}

impl Values {
    /// An empty column of a type.
    pub fn new(dtype: Dtype) -> Values {
        match dtype {
            Dtype::Float => Values::Float(Vec::new()),
            Dtype::Int64 => Values::Int64(Vec::new()),
            Dtype::Bytes => Values::Bytes(BytesColumn::default()),
        }
    }

    /// Their type.
    pub fn dtype(&self) -> Dtype {
        match self {
            Values::Float(_) => Dtype::Float,
            Values::Int64(_) => Dtype::Int64,
            Values::Bytes(_) => Dtype::Bytes,
        }
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        match self {
            Values::Float(values) => values.len(),
            Values::Int64(values) => values.len(),
            Values::Bytes(values) => values.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values as floats, if they are.
    pub fn floats(&self) -> Option<&[f32]> {
        match self {
            Values::Float(values) => Some(values),
            Values::Int64(_) | Values::Bytes(_) => None,
        }
    }

    /// The values as integers, if they are.
    pub fn int64s(&self) -> Option<&[i64]> {
        match self {
            Values::Int64(values) => Some(values),
            Values::Float(_) | Values::Bytes(_) => None,
        }
    }

    /// The values as byte strings, if they are.
    pub fn bytes(&self) -> Option<&BytesColumn> {
        match self {
            Values::Bytes(values) => Some(values),
            Values::Float(_) | Values::Int64(_) => None,
        }
    }

    pub(super) fn clear(&mut self) {
        self.truncate(0);
    }

    /// Keeps the first `count` strings.
    pub(crate) fn truncate(&mut self, count: usize) {
        match self {
            Values::Float(values) => values.truncate(count),
            Values::Int64(values) => values.truncate(count),
            Values::Bytes(values) => values.truncate(count),
        }
    }

    /// Reserves memory for `count` more values; strings have `bytes` bytes together.
    pub(super) fn try_reserve(&mut self, count: usize, bytes: usize) -> Result<()> {
        match self {
            Values::Float(values) => memory::reserve(FileKind::Example, values, count),
            Values::Int64(values) => memory::reserve(FileKind::Example, values, count),
            Values::Bytes(values) => values.try_reserve(FileKind::Example, count, bytes),
        }
    }

    /// The bytes of the strings in a range; 0 for numbers.
    pub(super) fn string_bytes(&self, range: std::ops::Range<usize>) -> usize {
        match self {
            Values::Float(_) | Values::Int64(_) => 0,
            Values::Bytes(values) => {
                let end = |count: usize| match count {
                    0 => 0,
                    _ => values.end(count - 1).unwrap_or(0),
                };
                end(range.end) - end(range.start)
            }
        }
    }

    /// Appends a range of values of another column of the same type.
    pub(super) fn extend(&mut self, from: &Values, range: std::ops::Range<usize>) {
        match (self, from) {
            (Values::Float(into), Values::Float(from)) => into.extend_from_slice(&from[range]),
            (Values::Int64(into), Values::Int64(from)) => into.extend_from_slice(&from[range]),
            (Values::Bytes(into), Values::Bytes(from)) => {
                range.for_each(|index| into.push(&from[index]));
            }
            (Values::Float(_) | Values::Int64(_) | Values::Bytes(_), _) => {
                unreachable!("both are of the type of the feature")
            }
        }
    }

    /// Appends the first value of another column, or zero or the empty string, `count` times.
    pub(super) fn fill(&mut self, from: Option<&Values>, count: usize) {
        match self {
            Values::Float(into) => {
                let value = from.and_then(|from| from.floats()?.first().copied());
                into.resize(into.len() + count, value.unwrap_or(0.0));
            }
            Values::Int64(into) => {
                let value = from.and_then(|from| from.int64s()?.first().copied());
                into.resize(into.len() + count, value.unwrap_or(0));
            }
            Values::Bytes(into) => {
                let value = from
                    .and_then(Values::bytes)
                    .map_or(&b""[..], |from| &from[0]);
                (0..count).for_each(|_| into.push(value));
            }
        }
    }
}

macro_rules! from {
    ($($given:ty => |$values:ident| $made:expr),* $(,)?) => {
        $(impl From<$given> for Values {
            fn from($values: $given) -> Values {
                $made
            }
        })*
    };
}

from! {
    f32 => |value| Values::Float(vec![value]),
    i64 => |value| Values::Int64(vec![value]),
    &str => |value| [value].into_iter().collect::<BytesColumn>().into(),
    &[u8] => |value| [value].into_iter().collect::<BytesColumn>().into(),
    Vec<f32> => |values| Values::Float(values),
    Vec<i64> => |values| Values::Int64(values),
    BytesColumn => |values| Values::Bytes(values),
}
