//! The arrays of the interpreter: f64, i64 and bool, rounded, wrapped and flushed (FTZ) to an element type.

use half::{bf16, f16};
use ndarray::{ArcArray, ArrayD, IxDyn};

use crate::graph::Type;
use crate::tensor::{Data, Tensor};
use crate::types::DType;

/// An array of the interpreter: all floats are f64 and all integers i64, kept rounded to their element type.
#[derive(Debug, Clone)]
pub enum Array {
    /// f16, bf16, f32 and f64.
    Float(ArcArray<f64, IxDyn>),
    /// i8 to i64 and u8.
    Int(ArcArray<i64, IxDyn>),
    /// Bools.
    Bool(ArcArray<bool, IxDyn>),
}

impl From<ArrayD<f64>> for Array {
    fn from(a: ArrayD<f64>) -> Array {
        Array::Float(a.into_shared())
    }
}

impl From<ArrayD<i64>> for Array {
    fn from(a: ArrayD<i64>) -> Array {
        Array::Int(a.into_shared())
    }
}

impl From<ArrayD<bool>> for Array {
    fn from(a: ArrayD<bool>) -> Array {
        Array::Bool(a.into_shared())
    }
}

/// Dispatches on the element type of an array: `each!(array, a => a.len())`.
macro_rules! each {
    ($array:expr, $a:ident => $body:expr) => {
        match $array {
            $crate::interp::Array::Float($a) => $body,
            $crate::interp::Array::Int($a) => $body,
            $crate::interp::Array::Bool($a) => $body,
        }
    };
}
pub(crate) use each;

impl Array {
    /// The elements of a tensor.
    ///
    /// # Panics
    ///
    /// When they are strings.
    pub fn of(tensor: &Tensor) -> Array {
        let shape = IxDyn(tensor.shape());
        let fits = "a tensor has as many elements as its shape says";
        match tensor.data() {
            Data::F16(_) | Data::Bf16(_) | Data::F32(_) | Data::F64(_) => {
                ArrayD::from_shape_vec(shape, tensor.to_f64s())
                    .expect(fits)
                    .into()
            }
            Data::I8(_) | Data::I16(_) | Data::I32(_) | Data::I64(_) | Data::U8(_) => {
                ArrayD::from_shape_vec(shape, tensor.to_i64s())
                    .expect(fits)
                    .into()
            }
            Data::Bool(v) => ArrayD::from_shape_vec(shape, v.clone()).expect(fits).into(),
            Data::String(_) => panic!("the interpreter computes with numbers"),
        }
    }

    /// The array as a tensor of that element type.
    pub fn tensor(&self, dtype: DType) -> Tensor {
        let ty = Type::new(dtype, self.shape());
        match self {
            // A contiguous array is read faster, and a broadcast zero need not be read at all.
            Array::Float(a) if a.as_slice().is_some() => {
                let values = a.as_slice().expect("the guard checked it");
                Tensor::from_f64s(&ty, values.iter().copied())
            }
            Array::Float(a)
                if a.strides().iter().all(|step| *step == 0)
                    && a.first().is_some_and(|x| x.to_bits() == 0) =>
            {
                Tensor::zeros(&ty)
            }
            Array::Float(a) => Tensor::from_f64s(&ty, a.iter().copied()),
            Array::Int(a) => Tensor::from_i64s(&ty, a.iter().copied()),
            Array::Bool(a) => Tensor::from_i64s(&ty, a.iter().map(|b| i64::from(*b))),
        }
    }

    /// The dimensions.
    pub fn shape(&self) -> &[usize] {
        each!(self, a => a.shape())
    }

    /// The floats.
    ///
    /// # Panics
    ///
    /// When the elements are others: the verifier has checked the types, so that is a mistake in a primitive's own file.
    pub fn float(&self) -> &ArcArray<f64, IxDyn> {
        match self {
            Array::Float(a) => a,
            other => panic!("floats were expected: {other:?}"),
        }
    }

    /// The integers.
    ///
    /// # Panics
    ///
    /// When the elements are others.
    pub fn int(&self) -> &ArcArray<i64, IxDyn> {
        match self {
            Array::Int(a) => a,
            other => panic!("integers were expected: {other:?}"),
        }
    }

    /// The bools.
    ///
    /// # Panics
    ///
    /// When the elements are others.
    pub fn bool(&self) -> &ArcArray<bool, IxDyn> {
        match self {
            Array::Bool(a) => a,
            other => panic!("bools were expected: {other:?}"),
        }
    }
}

/// A float rounded to an element type. Denormals are flushed to zero (FTZ), but for f16, which is computed in f32: CPUs are slow
/// with denormals, and compiled programs flush them as TensorFlow does.
///
/// For `+ - * /` and the square root, computing in f64 and rounding afterwards gives the correctly rounded f32 (and f16,
/// bf16) result: f64 has more than twice as many digits.
#[inline]
pub fn round(dtype: DType, x: f64) -> f64 {
    match dtype {
        DType::F16 => f16::from_f64(x).to_f64(),
        DType::Bf16 => flush_denormal(bf16::from_f64(x).to_f64(), f64::from(f32::MIN_POSITIVE)),
        DType::F32 => flush_denormal(f64::from(x as f32), f64::from(f32::MIN_POSITIVE)),
        DType::F64 => flush_denormal(x, f64::MIN_POSITIVE),
        DType::I8
        | DType::I16
        | DType::I32
        | DType::I64
        | DType::U8
        | DType::Bool
        | DType::String => {
            panic!("{dtype} is no float")
        }
    }
}

/// Flush-to-zero: the number, or a zero of its sign where it is denormal, closer to zero than `min_normal`.
#[inline]
fn flush_denormal(x: f64, min_normal: f64) -> f64 {
    if x.abs() < min_normal {
        0.0_f64.copysign(x)
    } else {
        x
    }
}

/// An integer wrapped to the width of an element type (two's complement).
pub fn wrap(dtype: DType, x: i64) -> i64 {
    match dtype {
        DType::I8 => i64::from(x as i8),
        DType::I16 => i64::from(x as i16),
        DType::I32 => i64::from(x as i32),
        DType::I64 => x,
        DType::U8 => i64::from(x as u8),
        DType::F16 | DType::Bf16 | DType::F32 | DType::F64 | DType::Bool | DType::String => {
            panic!("{dtype} is no integer")
        }
    }
}
