//! Tensors with values: dense row-major data, as it is fed to a program and fetched from one.

use std::fmt;

use half::{bf16, f16};

use crate::graph::Type;
use crate::types::DType;

/// A dense tensor: its shape and its elements in row-major order.
///
/// ```
/// use trainspec_ir::Tensor;
///
/// let x = Tensor::new(&[2, 2], vec![1.0_f32, 2.0, 3.0, 4.0]);
/// assert_eq!(x.shape(), [2, 2]);
/// assert_eq!(x.values::<f32>(), Some(&[1.0, 2.0, 3.0, 4.0][..]));
/// assert_eq!(x.ty().to_string(), "f32[2, 2]");
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    shape: Vec<usize>,
    data: Data,
}

/// The elements of a tensor.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)] // each is named after its element type
pub enum Data {
    F16(Vec<f16>),
    Bf16(Vec<bf16>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    I8(Vec<i8>),
    I16(Vec<i16>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    U8(Vec<u8>),
    Bool(Vec<bool>),
    /// Byte strings, which need not be UTF-8.
    String(Vec<Vec<u8>>),
}

/// A Rust type that is the element of a tensor.
pub trait Element: Clone + Sized {
    /// Its element type.
    const DTYPE: DType;
    /// Elements as data.
    fn wrap(values: Vec<Self>) -> Data;
    /// The elements, where they are of this type.
    fn unwrap(data: &Data) -> Option<&[Self]>;
    /// The elements, mutably, where they are of this type.
    fn unwrap_mut(data: &mut Data) -> Option<&mut [Self]>;
}

macro_rules! elements {
    ($($variant:ident: $ty:ty),* $(,)?) => {
        $(impl Element for $ty {
            const DTYPE: DType = DType::$variant;
            fn wrap(values: Vec<Self>) -> Data {
                Data::$variant(values)
            }
            fn unwrap(data: &Data) -> Option<&[Self]> {
                match data {
                    Data::$variant(values) => Some(values),
                    _ => None,
                }
            }
            fn unwrap_mut(data: &mut Data) -> Option<&mut [Self]> {
                match data {
                    Data::$variant(values) => Some(values),
                    _ => None,
                }
            }
        })*

        impl Data {
            /// The type of the elements.
            pub fn dtype(&self) -> DType {
                match self {
                    $(Data::$variant(_) => DType::$variant,)*
                }
            }

            /// How many elements there are.
            pub fn len(&self) -> usize {
                match self {
                    $(Data::$variant(values) => values.len(),)*
                }
            }

            /// Whether there are none.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }
        }
    };
}

elements!(F16: f16, Bf16: bf16, F32: f32, F64: f64, I8: i8, I16: i16, I32: i32, I64: i64, U8: u8, Bool: bool, String: Vec<u8>);

impl Tensor {
    /// A tensor of that shape.
    ///
    /// # Panics
    ///
    /// When the number of values is not the shape's.
    pub fn new<T: Element>(shape: &[usize], values: Vec<T>) -> Tensor {
        Tensor::of(shape, T::wrap(values))
    }

    /// A tensor whose element type is known at run time.
    ///
    /// # Panics
    ///
    /// When the number of values is not the shape's.
    pub fn of(shape: &[usize], data: Data) -> Tensor {
        let expected: usize = shape.iter().product();
        assert_eq!(
            data.len(),
            expected,
            "a tensor of shape {shape:?} has {expected} elements"
        );
        Tensor {
            shape: shape.to_vec(),
            data,
        }
    }

    /// A tensor without dimensions.
    pub fn scalar<T: Element>(value: T) -> Tensor {
        Tensor::new(&[], vec![value])
    }

    /// A tensor of numbers or bools of any type, each rounded to it; NaN becomes 0 in an integer.
    ///
    /// # Panics
    ///
    /// When the number of values is not the shape's, or the type is `string`.
    pub fn from_f64s(ty: &Type, values: impl IntoIterator<Item = f64>) -> Tensor {
        let v = values.into_iter();
        let data = match ty.dtype {
            DType::F16 => Data::F16(v.map(f16::from_f64).collect()),
            DType::Bf16 => Data::Bf16(v.map(bf16::from_f64).collect()),
            DType::F32 => Data::F32(v.map(|x| x as f32).collect()),
            DType::F64 => Data::F64(v.collect()),
            DType::I8 => Data::I8(v.map(|x| x as i8).collect()),
            DType::I16 => Data::I16(v.map(|x| x as i16).collect()),
            DType::I32 => Data::I32(v.map(|x| x as i32).collect()),
            DType::I64 => Data::I64(v.map(|x| x as i64).collect()),
            DType::U8 => Data::U8(v.map(|x| x as u8).collect()),
            DType::Bool => Data::Bool(v.map(|x| x != 0.0).collect()),
            DType::String => panic!("numbers are no strings"),
        };
        Tensor::of(&ty.shape, data)
    }

    /// A tensor of any integer type, each element wrapped to its width, or of floats or bools converted from integers.
    ///
    /// # Panics
    ///
    /// When the number of values is not the shape's, or the type is `string`.
    pub fn from_i64s(ty: &Type, values: impl IntoIterator<Item = i64>) -> Tensor {
        let v = values.into_iter();
        let data = match ty.dtype {
            DType::I8 => Data::I8(v.map(|x| x as i8).collect()),
            DType::I16 => Data::I16(v.map(|x| x as i16).collect()),
            DType::I32 => Data::I32(v.map(|x| x as i32).collect()),
            DType::I64 => Data::I64(v.collect()),
            DType::U8 => Data::U8(v.map(|x| x as u8).collect()),
            DType::Bool => Data::Bool(v.map(|x| x != 0).collect()),
            DType::F16 | DType::Bf16 | DType::F32 | DType::F64 | DType::String => {
                return Tensor::from_f64s(ty, v.map(|x| x as f64));
            }
        };
        Tensor::of(&ty.shape, data)
    }

    /// A tensor of zeros (or of `false`).
    ///
    /// # Panics
    ///
    /// When the type is `string`.
    pub fn zeros(ty: &Type) -> Tensor {
        let n = ty.elements();
        // Zeroed allocations (`calloc`) are not written.
        let data = match ty.dtype {
            DType::F16 => Data::F16(vec![f16::ZERO; n]),
            DType::Bf16 => Data::Bf16(vec![bf16::ZERO; n]),
            DType::F32 => Data::F32(vec![0.0; n]),
            DType::F64 => Data::F64(vec![0.0; n]),
            DType::I8 => Data::I8(vec![0; n]),
            DType::I16 => Data::I16(vec![0; n]),
            DType::I32 => Data::I32(vec![0; n]),
            DType::I64 => Data::I64(vec![0; n]),
            DType::U8 => Data::U8(vec![0; n]),
            DType::Bool => Data::Bool(vec![false; n]),
            DType::String => panic!("strings are not zero"),
        };
        Tensor::of(&ty.shape, data)
    }

    /// The type.
    pub fn ty(&self) -> Type {
        Type::new(self.dtype(), &self.shape)
    }

    /// The type of the elements.
    pub fn dtype(&self) -> DType {
        self.data.dtype()
    }

    /// The dimensions.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Its elements, without the shape.
    pub fn into_data(self) -> Data {
        self.data
    }

    /// The elements.
    pub fn data(&self) -> &Data {
        &self.data
    }

    /// The elements, where they are of that type.
    pub fn values<T: Element>(&self) -> Option<&[T]> {
        T::unwrap(&self.data)
    }

    /// The elements, mutably, where they are of that type.
    pub fn values_mut<T: Element>(&mut self) -> Option<&mut [T]> {
        T::unwrap_mut(&mut self.data)
    }

    /// Sets all elements to zero (or `false`, or the empty string), without another allocation.
    pub fn fill_zero(&mut self) {
        match &mut self.data {
            Data::F16(v) => v.fill(f16::ZERO),
            Data::Bf16(v) => v.fill(bf16::ZERO),
            Data::F32(v) => v.fill(0.0),
            Data::F64(v) => v.fill(0.0),
            Data::I8(v) => v.fill(0),
            Data::I16(v) => v.fill(0),
            Data::I32(v) => v.fill(0),
            Data::I64(v) => v.fill(0),
            Data::U8(v) => v.fill(0),
            Data::Bool(v) => v.fill(false),
            Data::String(v) => v.iter_mut().for_each(Vec::clear),
        }
    }

    /// The elements as f64: exact for all but large i64 numbers.
    ///
    /// # Panics
    ///
    /// When the elements are strings.
    pub fn to_f64s(&self) -> Vec<f64> {
        match &self.data {
            Data::F16(v) => v.iter().map(|x| x.to_f64()).collect(),
            Data::Bf16(v) => v.iter().map(|x| x.to_f64()).collect(),
            Data::F32(v) => v.iter().map(|x| f64::from(*x)).collect(),
            Data::F64(v) => v.clone(),
            Data::I8(_)
            | Data::I16(_)
            | Data::I32(_)
            | Data::I64(_)
            | Data::U8(_)
            | Data::Bool(_) => self.to_i64s().into_iter().map(|x| x as f64).collect(),
            Data::String(_) => panic!("strings are no numbers"),
        }
    }

    /// The elements of a tensor of integers or bools.
    ///
    /// # Panics
    ///
    /// When the elements are floats or strings.
    pub fn to_i64s(&self) -> Vec<i64> {
        match &self.data {
            Data::I8(v) => v.iter().map(|x| i64::from(*x)).collect(),
            Data::I16(v) => v.iter().map(|x| i64::from(*x)).collect(),
            Data::I32(v) => v.iter().map(|x| i64::from(*x)).collect(),
            Data::I64(v) => v.clone(),
            Data::U8(v) => v.iter().map(|x| i64::from(*x)).collect(),
            Data::Bool(v) => v.iter().map(|x| i64::from(*x)).collect(),
            Data::F16(_) | Data::Bf16(_) | Data::F32(_) | Data::F64(_) | Data::String(_) => {
                panic!("{} elements are no integers", self.dtype())
            }
        }
    }

    /// The splat value: the number (or bool) that all elements are, bit by bit; `None` where they differ, or where there are none.
    pub fn splat(&self) -> Option<f64> {
        if self.dtype() == DType::String || self.data.is_empty() {
            return None;
        }
        let values = self.to_f64s();
        let first = values[0].to_bits();
        values
            .iter()
            .all(|x| x.to_bits() == first)
            .then_some(values[0])
    }

    /// The elements of a tensor of bools.
    ///
    /// # Panics
    ///
    /// When the elements are not `bool`.
    pub fn to_bools(&self) -> Vec<bool> {
        self.values::<bool>().expect("a tensor of bools").to_vec()
    }

    /// The elements in another shape.
    ///
    /// # Panics
    ///
    /// When the shape holds another number of elements.
    pub fn reshape(self, shape: &[usize]) -> Tensor {
        Tensor::of(shape, self.data)
    }

    /// The element at a flat index, as the textual form of a graph has it: `1.5`, `-3`, `true`.
    ///
    /// # Panics
    ///
    /// When there are fewer elements.
    pub fn element_text(&self, i: usize) -> String {
        match &self.data {
            Data::F16(v) => format!("{:?}", v[i].to_f64()),
            Data::Bf16(v) => format!("{:?}", v[i].to_f64()),
            Data::F32(v) => format!("{:?}", v[i]),
            Data::F64(v) => format!("{:?}", v[i]),
            Data::I8(v) => v[i].to_string(),
            Data::I16(v) => v[i].to_string(),
            Data::I32(v) => v[i].to_string(),
            Data::I64(v) => v[i].to_string(),
            Data::U8(v) => v[i].to_string(),
            Data::Bool(v) => v[i].to_string(),
            Data::String(v) => format!("{:?}", String::from_utf8_lossy(&v[i])),
        }
    }
}

impl fmt::Display for Tensor {
    /// The elements as the textual form of a graph has them: `1.5`, `[1, 2, 3]`, `true`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.shape.is_empty() {
            return f.write_str(&self.element_text(0));
        }
        f.write_str("[")?;
        for i in 0..self.data.len() {
            let comma = if i > 0 { ", " } else { "" };
            write!(f, "{comma}{}", self.element_text(i))?;
        }
        f.write_str("]")
    }
}
