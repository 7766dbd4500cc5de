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

    fn all<T: Copy>(values: &[T], to: impl Fn(T) -> f64) -> Option<Statistics> {
        /// Numbers that a machine looks at together.
        const LANES: usize = 8;
        let (mut min, mut max) = ([f64::INFINITY; LANES], [f64::NEG_INFINITY; LANES]);
        let mut sum = [0.0; LANES];
        let (mut nan, mut finite) = ([0_u64; LANES], [0_u64; LANES]);
        // Without a branch; a comparison with what is no number is false.
        let mut take = |lane: usize, x: f64| {
            let is_finite = x.abs() < f64::INFINITY;
            min[lane] = if x < min[lane] { x } else { min[lane] };
            max[lane] = if x > max[lane] { x } else { max[lane] };
            sum[lane] += if is_finite { x } else { 0.0 };
            nan[lane] += u64::from(x.is_nan());
            finite[lane] += u64::from(is_finite);
        };
        let (whole, rest) = values.as_chunks::<LANES>();
        for chunk in whole {
            for (lane, x) in chunk.iter().enumerate() {
                take(lane, to(*x));
            }
        }
        for (lane, x) in rest.iter().enumerate() {
            take(lane, to(*x));
        }
        let count = values.len() as u64;
        let (nan, finite): (u64, u64) = (nan.iter().sum(), finite.iter().sum());
        let any = count > nan;
        let of = |all: f64| if any { all } else { f64::NAN };
        (count > 0).then(|| Statistics {
            min: of(min.into_iter().fold(f64::INFINITY, f64::min)),
            mean: sum.iter().sum::<f64>() / finite as f64,
            max: of(max.into_iter().fold(f64::NEG_INFINITY, f64::max)),
            nan,
            infinite: count - nan - finite,
        })
    }
}

fn values<T: Element>(
    tensor: &Tensor,
    to: impl Fn(T) -> f64,
) -> Result<Option<Statistics>, FormatError> {
    match tensor.as_slice::<T>() {
        Some(values) => Ok(Statistics::all(values, to)),
        None => Ok(Statistics::all(&tensor.to_vec::<T>()?, to)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_is_counted_and_left_out() {
        let mut values: Vec<f32> = (0..100).map(|i| i as f32).collect();
        values.extend([f32::NAN, f32::INFINITY, f32::NAN, f32::NEG_INFINITY]);
        let s = Statistics::all(&values, f64::from).unwrap();
        assert_eq!(
            (s.min, s.mean, s.max),
            (f64::NEG_INFINITY, 49.5, f64::INFINITY)
        );
        assert_eq!((s.nan, s.infinite), (2, 2));

        let s = Statistics::all(&[f32::NAN; 3], f64::from).unwrap();
        assert!(s.min.is_nan() && s.mean.is_nan() && s.max.is_nan());
        assert_eq!(s.nan, 3);
        assert_eq!(Statistics::all(&[0.0_f32; 0], f64::from), None);
        let s = Statistics::all(&[7_i64], |x| x as f64).unwrap();
        assert_eq!((s.min, s.mean, s.max, s.infinite), (7.0, 7.0, 7.0, 0));
    }
}
