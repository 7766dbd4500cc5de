//! Element types (dtypes), symbolic dimensions, shapes and tensor types.

use std::fmt;
use std::sync::Arc;

use half::{bf16, f16};

use crate::size::{MAX_ELEMENTS, Size};

/// The type of a tensor's elements.
///
/// ```
/// use trainspec_ir::DType;
///
/// assert_eq!(DType::Bf16.to_string(), "bf16");
/// assert!(DType::Bf16.is_float());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // each is named after what it is
pub enum DType {
    F16,
    Bf16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    U8,
    Bool,
    String,
}

impl DType {
    /// All of them, in the order of the enum.
    pub const ALL: [DType; 11] = [
        DType::F16,
        DType::Bf16,
        DType::F32,
        DType::F64,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::U8,
        DType::Bool,
        DType::String,
    ];

    /// The name in the language.
    pub fn name(self) -> &'static str {
        match self {
            DType::F16 => "f16",
            DType::Bf16 => "bf16",
            DType::F32 => "f32",
            DType::F64 => "f64",
            DType::I8 => "i8",
            DType::I16 => "i16",
            DType::I32 => "i32",
            DType::I64 => "i64",
            DType::U8 => "u8",
            DType::Bool => "bool",
            DType::String => "string",
        }
    }

    /// The type of that name.
    pub fn from_name(name: &str) -> Option<DType> {
        DType::ALL.into_iter().find(|d| d.name() == name)
    }

    /// Whether the values are floating-point numbers.
    pub fn is_float(self) -> bool {
        Class::Float.contains(self)
    }

    /// Whether the values are integers.
    pub fn is_int(self) -> bool {
        Class::Int.contains(self)
    }

    /// How many bytes an element takes.
    ///
    /// # Panics
    ///
    /// For `string`, whose elements differ.
    pub fn bytes(self) -> usize {
        match self {
            DType::I8 | DType::U8 | DType::Bool => 1,
            DType::F16 | DType::Bf16 | DType::I16 => 2,
            DType::F32 | DType::I32 => 4,
            DType::F64 | DType::I64 => 8,
            DType::String => panic!("strings have no fixed size"),
        }
    }

    /// The largest finite number of a float type; the smallest is its negative.
    pub fn max_finite(self) -> Option<f64> {
        match self {
            DType::F16 => Some(f16::MAX.to_f64()),
            DType::Bf16 => Some(bf16::MAX.to_f64()),
            DType::F32 => Some(f32::MAX.into()),
            DType::F64 => Some(f64::MAX),
            DType::I8
            | DType::I16
            | DType::I32
            | DType::I64
            | DType::U8
            | DType::Bool
            | DType::String => None,
        }
    }

    /// The smallest positive normal number of a float type; what is below is denormal, and flushed to zero in computations.
    pub fn min_normal(self) -> Option<f64> {
        match self {
            DType::F16 => Some(f16::MIN_POSITIVE.to_f64()),
            DType::Bf16 => Some(bf16::MIN_POSITIVE.to_f64()),
            DType::F32 => Some(f32::MIN_POSITIVE.into()),
            DType::F64 => Some(f64::MIN_POSITIVE),
            DType::I8
            | DType::I16
            | DType::I32
            | DType::I64
            | DType::U8
            | DType::Bool
            | DType::String => None,
        }
    }

    /// The minimum and maximum of an integer type.
    pub fn int_range(self) -> Option<(i64, i64)> {
        match self {
            DType::I8 => Some((i8::MIN.into(), i8::MAX.into())),
            DType::I16 => Some((i16::MIN.into(), i16::MAX.into())),
            DType::I32 => Some((i32::MIN.into(), i32::MAX.into())),
            DType::I64 => Some((i64::MIN, i64::MAX)),
            DType::U8 => Some((0, u8::MAX.into())),
            DType::F16 | DType::Bf16 | DType::F32 | DType::F64 | DType::Bool | DType::String => {
                None
            }
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A set of element types, as `where T: float` names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// f16, bf16, f32, f64.
    Float,
    /// i8 to i64 and u8.
    Int,
    /// Float or int.
    Number,
    /// Every type.
    Any,
}

impl Class {
    /// All of them.
    pub const ALL: [Class; 4] = [Class::Float, Class::Int, Class::Number, Class::Any];

    /// The name in the language.
    pub fn name(self) -> &'static str {
        match self {
            Class::Float => "float",
            Class::Int => "int",
            Class::Number => "number",
            Class::Any => "any",
        }
    }

    /// The class of that name.
    pub fn from_name(name: &str) -> Option<Class> {
        Class::ALL.into_iter().find(|c| c.name() == name)
    }

    /// Whether the type belongs to the class.
    pub fn contains(self, dtype: DType) -> bool {
        match dtype {
            DType::F16 | DType::Bf16 | DType::F32 | DType::F64 => self != Class::Int,
            DType::I8 | DType::I16 | DType::I32 | DType::I64 | DType::U8 => self != Class::Float,
            DType::Bool | DType::String => self == Class::Any,
        }
    }
}

/// The name of a run-time count: the extent of a dynamic dimension. Two dimensions with the same count have the same extent.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Count(pub Arc<str>);

/// One dimension of a shape.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dim {
    /// The extent; with a `count`, its upper bound (the capacity).
    pub size: Size,
    /// For a data-dependent extent: which count says how much of the capacity is valid.
    pub count: Option<Count>,
}

impl Dim {
    /// A dimension of exactly that size.
    pub fn exact(size: Size) -> Dim {
        Dim { size, count: None }
    }

    /// A dimension of a static size.
    pub fn fixed(n: i64) -> Dim {
        Dim::exact(Size::fixed(n))
    }

    /// A dynamic dimension of at most `capacity`, valid up to `count`.
    pub fn at_most(capacity: Size, count: Count) -> Dim {
        Dim {
            size: capacity,
            count: Some(count),
        }
    }

    /// Whether the dimension is certainly of extent 1.
    pub fn is_one(&self) -> bool {
        self.count.is_none() && self.size == Size::fixed(1)
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            None => write!(f, "{}", self.size),
            Some(_) => write!(f, "<={}", self.size),
        }
    }
}

/// The dimensions of a tensor; none for a scalar.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Shape(pub Vec<Dim>);

impl Shape {
    /// The shape of a scalar.
    pub fn scalar() -> Shape {
        Shape(Vec::new())
    }

    /// A static shape.
    pub fn fixed(sizes: &[i64]) -> Shape {
        Shape(sizes.iter().map(|n| Dim::fixed(*n)).collect())
    }

    /// How many dimensions there are.
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// The number of elements (for counted dimensions, of their capacity); `None` where it exceeds [`MAX_ELEMENTS`] or overflows.
    ///
    /// An empty dimension hides no others that are too large, so the answer does not depend on the order of dimensions
    /// and holds for any subset of them.
    pub fn elements(&self) -> Option<Size> {
        let fixed = self.fixed_elements()?;
        if self.0.iter().any(|d| d.size == Size::fixed(0)) {
            return Some(Size::fixed(0));
        }
        let mut product = Size::fixed(fixed);
        for dim in self.0.iter().filter(|d| d.size.value().is_none()) {
            product = product.mul(&dim.size)?;
        }
        Some(product)
    }

    /// Whether [`Shape::elements`] has an answer: the static dimensions leave a tensor within [`MAX_ELEMENTS`], names
    /// counting as 1.
    pub fn fits(&self) -> bool {
        // The product of numbers and of a few bare names always has one.
        let named = self.0.iter().filter(|d| d.size.value().is_none());
        match named.clone().all(|d| d.size.as_name().is_some()) && named.count() <= 16 {
            true => self.fixed_elements().is_some(),
            false => self.elements().is_some(),
        }
    }

    fn fixed_elements(&self) -> Option<i64> {
        let mut product: i64 = 1;
        for n in self
            .0
            .iter()
            .filter_map(|d| d.size.value())
            .filter(|n| *n != 0)
        {
            product = product.checked_mul(n).filter(|n| *n <= MAX_ELEMENTS)?;
        }
        Some(product)
    }

    /// Whether some dimension is dynamic: has a run-time count.
    pub fn is_counted(&self) -> bool {
        self.0.iter().any(|d| d.count.is_some())
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, dim) in self.0.iter().enumerate() {
            let comma = if i > 0 { ", " } else { "" };
            write!(f, "{comma}{dim}")?;
        }
        f.write_str("]")
    }
}

/// The type of a tensor: its element type and its symbolic shape.
///
/// ```
/// use trainspec_ir::{DType, Shape, TensorType};
///
/// assert_eq!(TensorType::new(DType::F32, Shape::fixed(&[2, 3])).to_string(), "f32[2, 3]");
/// assert_eq!(TensorType::scalar(DType::I64).to_string(), "i64");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TensorType {
    /// The type of the elements.
    pub dtype: DType,
    /// The dimensions.
    pub shape: Shape,
}

impl TensorType {
    /// A tensor of that element type and shape.
    pub fn new(dtype: DType, shape: Shape) -> TensorType {
        TensorType { dtype, shape }
    }

    /// A tensor without dimensions.
    pub fn scalar(dtype: DType) -> TensorType {
        TensorType::new(dtype, Shape::scalar())
    }

    /// How many dimensions there are.
    pub fn rank(&self) -> usize {
        self.shape.rank()
    }

    /// This shape with another element type.
    pub fn with_dtype(&self, dtype: DType) -> TensorType {
        TensorType::new(dtype, self.shape.clone())
    }

    /// This element type in another shape.
    pub fn with_dims(&self, dims: Vec<Dim>) -> TensorType {
        TensorType::new(self.dtype, Shape(dims))
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.shape.rank() == 0 {
            write!(f, "{}", self.dtype)
        } else {
            write!(f, "{}{}", self.dtype, self.shape)
        }
    }
}
