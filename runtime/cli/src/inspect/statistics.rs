//! The smallest, the mean and the largest of a tensor's elements.

use trainspec_formats::FormatError;
use trainspec_formats::checkpoint::{DType, Element, Tensor};

/// What the elements of a tensor are, taken together. Those that are no number are counted and left out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Statistics {
    pub(crate) min: f64,
    pub(crate) mean: f64,
    pub(crate) max: f64,
    pub(crate) nan: u64,
    pub(crate) infinite: u64,
}

impl Statistics {
    /// Those of a tensor; nothing for strings, complex numbers and types that no machine computes with, and for no elements.
    pub(crate) fn of(tensor: &Tensor) -> Result<Option<Statistics>, FormatError> {
        macro_rules! numbers {
            ($ty:ty, $to:expr) => {
                values::<$ty>(tensor, $to)
            };
        }
        match tensor.dtype() {
            DType::Float32 => numbers!(f32, f64::from),
            DType::Float64 => numbers!(f64, |x| x),
            DType::Float16 => numbers!(half::f16, f64::from),
            DType::BFloat16 => numbers!(half::bf16, f64::from),
            DType::Bool => numbers!(bool, |x| f64::from(u8::from(x))),
            DType::Int8 => numbers!(i8, f64::from),
            DType::Int16 => numbers!(i16, f64::from),
            DType::Int32 => numbers!(i32, f64::from),
            DType::Int64 => numbers!(i64, |x| x as f64),
            DType::UInt8 => numbers!(u8, f64::from),
            DType::UInt16 => numbers!(u16, f64::from),
            DType::UInt32 => numbers!(u32, f64::from),
            DType::UInt64 => numbers!(u64, |x| x as f64),
            _ => Ok(None),
        }
    }

    fn all(numbers: impl Iterator<Item = f64>) -> Option<Statistics> {
        let (mut sum, mut finite) = (0.0, 0_u64);
        let mut s = Statistics {
            min: f64::INFINITY,
            mean: f64::NAN,
            max: f64::NEG_INFINITY,
            nan: 0,
            infinite: 0,
        };
        let mut count = 0_u64;
        for x in numbers {
            count += 1;
            if x.is_nan() {
                s.nan += 1;
                continue;
            }
            (s.min, s.max) = (s.min.min(x), s.max.max(x));
            match x.is_finite() {
                true => (sum, finite) = (sum + x, finite + 1),
                false => s.infinite += 1,
            }
        }
        if count == s.nan {
            (s.min, s.max) = (f64::NAN, f64::NAN);
        }
        if finite > 0 {
            s.mean = sum / finite as f64;
        }
        (count > 0).then_some(s)
    }
}

fn values<T: Element>(
    tensor: &Tensor,
    to: impl Fn(T) -> f64,
) -> Result<Option<Statistics>, FormatError> {
    match tensor.as_slice::<T>() {
        Some(values) => Ok(Statistics::all(values.iter().map(|x| to(*x)))),
        None => Ok(Statistics::all(tensor.to_vec::<T>()?.into_iter().map(to))),
    }
}
