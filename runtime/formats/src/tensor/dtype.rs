//! Element types (`tf.DType`), with TensorFlow's enum numbers, names and sizes.

use std::fmt;

/// The element type of a tensor.
///
/// ```
/// use trainspec_formats::tensor::DType;
///
/// assert_eq!(DType::from_name("float32"), Some(DType::Float32));
/// assert_eq!(DType::BFloat16.to_string(), "bfloat16");
/// assert_eq!(DType::Complex64.size(), Some(8));
/// assert_eq!(DType::String.size(), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names say it")]
pub enum DType {
    Float32,
    Float64,
    Int32,
    UInt8,
    Int16,
    Int8,
    /// Byte strings, each of its own length.
    String,
    /// Two `Float32`: the real part and the imaginary one.
    Complex64,
    Int64,
    /// One byte each, 0 or 1.
    Bool,
    QInt8,
    QUInt8,
    QInt32,
    BFloat16,
    QInt16,
    QUInt16,
    UInt16,
    /// Two `Float64`: the real part and the imaginary one.
    Complex128,
    Float16,
    /// A handle to an object of a program (`DT_RESOURCE`). It is never stored.
    Resource,
    /// A variant (`DT_VARIANT`), each a serialized `VariantTensorDataProto`.
    Variant,
    UInt32,
    UInt64,
    Float8E5M2,
    Float8E4M3Fn,
    Float8E4M3Fnuz,
    Float8E4M3B11Fnuz,
    Float8E5M2Fnuz,
    /// One byte each, as all types of less than eight bits.
    Int4,
    UInt4,
    Int2,
    UInt2,
    Float4E2M1Fn,
}

/// Each type with its enum number, its name, and the bytes of an element (0 for variable length).
const ALL: [(DType, i32, &str, usize); 33] = [
    (DType::Float32, 1, "float32", 4),
    (DType::Float64, 2, "float64", 8),
    (DType::Int32, 3, "int32", 4),
    (DType::UInt8, 4, "uint8", 1),
    (DType::Int16, 5, "int16", 2),
    (DType::Int8, 6, "int8", 1),
    (DType::String, 7, "string", 0),
    (DType::Complex64, 8, "complex64", 8),
    (DType::Int64, 9, "int64", 8),
    (DType::Bool, 10, "bool", 1),
    (DType::QInt8, 11, "qint8", 1),
    (DType::QUInt8, 12, "quint8", 1),
    (DType::QInt32, 13, "qint32", 4),
    (DType::BFloat16, 14, "bfloat16", 2),
    (DType::QInt16, 15, "qint16", 2),
    (DType::QUInt16, 16, "quint16", 2),
    (DType::UInt16, 17, "uint16", 2),
    (DType::Complex128, 18, "complex128", 16),
    (DType::Float16, 19, "float16", 2),
    (DType::Resource, 20, "resource", 0),
    (DType::Variant, 21, "variant", 0),
    (DType::UInt32, 22, "uint32", 4),
    (DType::UInt64, 23, "uint64", 8),
    (DType::Float8E5M2, 24, "float8_e5m2", 1),
    (DType::Float8E4M3Fn, 25, "float8_e4m3fn", 1),
    (DType::Float8E4M3Fnuz, 26, "float8_e4m3fnuz", 1),
    (DType::Float8E4M3B11Fnuz, 27, "float8_e4m3b11fnuz", 1),
    (DType::Float8E5M2Fnuz, 28, "float8_e5m2fnuz", 1),
    (DType::Int4, 29, "int4", 1),
    (DType::UInt4, 30, "uint4", 1),
    (DType::Int2, 31, "int2", 1),
    (DType::UInt2, 32, "uint2", 1),
    (DType::Float4E2M1Fn, 33, "float4_e2m1fn", 1),
];

impl DType {
    /// Every type, in the order of their enum numbers.
    pub fn all() -> impl Iterator<Item = DType> {
        ALL.iter().map(|row| row.0)
    }

    /// The type with an enum number.
    pub fn from_number(number: i32) -> Option<DType> {
        ALL.iter().find(|row| row.1 == number).map(|row| row.0)
    }

    /// The type that has this name in TensorFlow.
    pub fn from_name(name: &str) -> Option<DType> {
        ALL.iter().find(|row| row.2 == name).map(|row| row.0)
    }

    /// Its enum number.
    pub fn number(self) -> i32 {
        self.row().1
    }

    /// TensorFlow's name for it.
    pub fn name(self) -> &'static str {
        self.row().2
    }

    /// The bytes of an element; `None` for elements of variable length.
    pub fn size(self) -> Option<usize> {
        Some(self.row().3).filter(|&size| size > 0)
    }

    /// The bytes of a number inside an element, the unit of byte swapping.
    pub(crate) fn word(self) -> usize {
        match self {
            DType::Complex64 => 4,
            DType::Complex128 => 8,
            _ => self.row().3,
        }
    }

    // The table is in the order of the enum.
    fn row(self) -> &'static (DType, i32, &'static str, usize) {
        &ALL[self as usize]
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order() {
        for (i, row) in ALL.iter().enumerate() {
            assert_eq!(row.0 as usize, i);
            assert_eq!(row.0.row().1, row.1);
            assert_eq!(row.1 as usize, i + 1);
        }
    }
}
