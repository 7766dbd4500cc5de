//! The static type of a value of a graph: element type and shape.

use std::fmt;

use crate::types::{DType, TensorType};

/// An element type and a static shape.
///
/// ```
/// use trainspec_ir::{DType, graph::Type};
///
/// assert_eq!(Type::new(DType::F32, &[2, 3]).to_string(), "f32[2, 3]");
/// assert_eq!(Type::new(DType::I64, &[]).to_string(), "i64");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Type {
    /// The type of the elements.
    pub dtype: DType,
    /// The dimensions; none for a scalar.
    pub shape: Vec<usize>,
}

impl Type {
    /// A tensor of that element type and shape.
    pub fn new(dtype: DType, shape: &[usize]) -> Type {
        Type {
            dtype,
            shape: shape.to_vec(),
        }
    }

    /// A tensor without dimensions.
    pub fn scalar(dtype: DType) -> Type {
        Type {
            dtype,
            shape: Vec::new(),
        }
    }

    /// How many dimensions there are.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// How many elements there are.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// How many bytes its elements take, `u64::MAX` where they are more; a string counts as its header alone.
    pub fn bytes(&self) -> u64 {
        let width = match self.dtype {
            DType::String => size_of::<Vec<u8>>(),
            dtype => dtype.bytes(),
        };
        let sizes = self.shape.iter();
        sizes.fold(width as u64, |all, n| all.saturating_mul(*n as u64))
    }

    /// This shape with another element type.
    pub fn with_dtype(&self, dtype: DType) -> Type {
        Type::new(dtype, &self.shape)
    }

    /// This element type in another shape.
    pub fn with_shape(&self, shape: &[usize]) -> Type {
        Type::new(self.dtype, shape)
    }

    /// The static type of a symbolic one, without names and counts; `None` where a dimension is not bound. A counted dimension
    /// has its capacity.
    pub fn of(ty: &TensorType) -> Option<Type> {
        let known = |d: &crate::types::Dim| usize::try_from(d.size.value()?).ok();
        let shape = ty
            .shape
            .0
            .iter()
            .map(known)
            .collect::<Option<Vec<usize>>>()?;
        Some(Type {
            dtype: ty.dtype,
            shape,
        })
    }

    /// The symbolic type, as the shape rules of the language see it.
    pub fn tensor_type(&self) -> TensorType {
        let sizes: Vec<i64> = self.shape.iter().map(|n| *n as i64).collect();
        TensorType::new(self.dtype, crate::types::Shape::fixed(&sizes))
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shape.is_empty() {
            true => write!(f, "{}", self.dtype),
            false => write!(f, "{}{:?}", self.dtype, self.shape),
        }
    }
}
