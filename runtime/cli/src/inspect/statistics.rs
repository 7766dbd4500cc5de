//! Statistics of a tensor's elements: minimum, mean, maximum, and the number of NaN and infinite ones.

use trainspec_formats::FormatError;
use trainspec_formats::checkpoint::{DType, Element, Tensor};

use crate::tensors::{Number, number};

/// Statistics of the elements of a tensor. NaN elements are counted and left out of the range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Statistics {
    /// `None` for complex numbers, which have no order.
    pub(crate) range: Option<Range>,
    pub(crate) nan: u64,
    pub(crate) infinite: u64,
}

/// Minimum, mean and maximum of the elements of a tensor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Range {
    pub(crate) min: Number,
    pub(crate) mean: f64,
    pub(crate) max: Number,
}

impl Statistics {
    /// The statistics of a tensor; `None` for strings and empty tensors.
    pub(crate) fn of(tensor: &Tensor) -> Result<Option<Statistics>, FormatError> {
        let dtype = tensor.dtype();
        let found = match dtype {
            DType::Float32 => values::<f32>(tensor, f64::from)?,
            DType::Float64 => values::<f64>(tensor, |x| x)?,
            DType::Float16 => values::<half::f16>(tensor, f64::from)?,
            DType::BFloat16 => values::<half::bf16>(tensor, f64::from)?,
            DType::Int32 => values::<i32>(tensor, f64::from)?,
            DType::Int64 => return exact::<i64>(tensor, |x| x as f64),
            DType::UInt64 => return exact::<u64>(tensor, |x| x as f64),
            DType::Complex64 | DType::Complex128 => return Ok(Statistics::complex(tensor)),
            DType::String | DType::Variant | DType::Resource => None,
            // Narrow types, decoded by their bytes; those of one byte with a lookup table.
            _ => match dtype.size() {
                Some(1) => {
                    let known: Vec<f64> = (0..=255).map(|b| real(number(dtype, &[b]))).collect();
                    Statistics::all(tensor.bytes(), |b| known[usize::from(b)])
                }
                Some(2) => {
                    let (pairs, _) = tensor.bytes().as_chunks::<2>();
                    Statistics::all(pairs, |b| real(number(dtype, &b)))
                }
                _ => {
                    let (words, _) = tensor.bytes().as_chunks::<4>();
                    Statistics::all(words, |b| real(number(dtype, &b)))
                }
            },
        };
        Ok(found.map(|found| match is_integer(tensor) {
            true => found.with_integer_bounds(),
            false => found,
        }))
    }

    /// These statistics with bounds as integers.
    fn with_integer_bounds(mut self) -> Statistics {
        if let Some(range) = &mut self.range {
            range.min = Number::Integer(real(range.min) as i128);
            range.max = Number::Integer(real(range.max) as i128);
        }
        self
    }

    /// The statistics of complex numbers: how many have a NaN or an infinite component.
    fn complex(tensor: &Tensor) -> Option<Statistics> {
        let (mut count, mut nan, mut infinite) = (0, 0, 0);
        let size = tensor.dtype().size().unwrap_or(1);
        for element in tensor.bytes().chunks_exact(size) {
            let Number::Complex(a, b) = number(tensor.dtype(), element) else {
                continue;
            };
            let is_nan = a.is_nan() || b.is_nan();
            count += 1;
            nan += u64::from(is_nan);
            infinite += u64::from(!is_nan && (a.is_infinite() || b.is_infinite()));
        }
        (count > 0).then_some(Statistics {
            range: None,
            nan,
            infinite,
        })
    }

    fn all<T: Copy>(values: &[T], to: impl Fn(T) -> f64) -> Option<Statistics> {
        /// Independent accumulators, so that the loop vectorizes.
        const LANES: usize = 8;
        let (mut min, mut max) = ([f64::INFINITY; LANES], [f64::NEG_INFINITY; LANES]);
        let mut sum = [0.0; LANES];
        let (mut nan, mut finite) = ([0_u64; LANES], [0_u64; LANES]);
        // Branch-free; a comparison with NaN is false.
        let mut take = |lane: usize, x: f64| {
            let is_finite = x.abs() < f64::INFINITY;
            min[lane] = if x < min[lane] { x } else { min[lane] };
            max[lane] = if x > max[lane] { x } else { max[lane] };
            sum[lane] += if is_finite { x } else { 0.0 };
            nan[lane] += u64::from(x.is_nan());
            finite[lane] += u64::from(is_finite);
        };
        let (chunks, tail) = values.as_chunks::<LANES>();
        for chunk in chunks {
            for (lane, x) in chunk.iter().enumerate() {
                take(lane, to(*x));
            }
        }
        for (lane, x) in tail.iter().enumerate() {
            take(lane, to(*x));
        }
        let count = values.len() as u64;
        let (nan, finite): (u64, u64) = (nan.iter().sum(), finite.iter().sum());
        let any = count > nan;
        let of = |all: f64| if any { all } else { f64::NAN };
        (count > 0).then(|| Statistics {
            range: Some(Range {
                min: Number::Real(of(min.into_iter().fold(f64::INFINITY, f64::min))),
                mean: sum.iter().sum::<f64>() / finite as f64,
                max: Number::Real(of(max.into_iter().fold(f64::NEG_INFINITY, f64::max))),
            }),
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

/// The statistics of 64-bit integers, with exact bounds: an `f64` cannot represent them all.
fn exact<T: Element + Ord + Copy + Into<i128>>(
    tensor: &Tensor,
    to: impl Fn(T) -> f64,
) -> Result<Option<Statistics>, FormatError> {
    let held;
    let values = match tensor.as_slice::<T>() {
        Some(values) => values,
        None => {
            held = tensor.to_vec::<T>()?;
            &held
        }
    };
    let mut found = Statistics::all(values, to);
    let bounds = values.iter().min().zip(values.iter().max());
    if let (
        Some(Statistics {
            range: Some(range), ..
        }),
        Some((min, max)),
    ) = (&mut found, bounds)
    {
        range.min = Number::Integer((*min).into());
        range.max = Number::Integer((*max).into());
    }
    Ok(found)
}

/// A number that is not complex, rounded to `f64`.
fn real(number: Number) -> f64 {
    match number {
        Number::Integer(n) => n as f64,
        Number::Real(x) => x,
        Number::Complex(..) => f64::NAN,
    }
}

/// Whether elements are integers or bools.
fn is_integer(tensor: &Tensor) -> bool {
    let size = tensor.dtype().size().unwrap_or(0);
    let first = tensor.bytes().get(..size).filter(|_| size > 0);
    first.is_some_and(|first| matches!(number(tensor.dtype(), first), Number::Integer(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_is_counted_and_left_out() {
        let mut values: Vec<f32> = (0..100).map(|i| i as f32).collect();
        values.extend([f32::NAN, f32::INFINITY, f32::NAN, f32::NEG_INFINITY]);
        let s = Statistics::all(&values, f64::from).unwrap();
        let r = s.range.unwrap();
        assert_eq!(
            (real(r.min), r.mean, real(r.max)),
            (f64::NEG_INFINITY, 49.5, f64::INFINITY)
        );
        assert_eq!((s.nan, s.infinite), (2, 2));

        let s = Statistics::all(&[f32::NAN; 3], f64::from).unwrap();
        let r = s.range.unwrap();
        assert!(real(r.min).is_nan() && r.mean.is_nan() && real(r.max).is_nan());
        assert_eq!(s.nan, 3);
        assert_eq!(Statistics::all(&[0.0_f32; 0], f64::from), None);
    }

    #[test]
    fn every_type_that_is_printed_has_its_bounds() {
        let of = |tensor: &Tensor| Statistics::of(tensor).unwrap().unwrap();
        let tensor = Tensor::from_values(&[2], &[i64::MIN, i64::MAX]).unwrap();
        let range = of(&tensor).range.unwrap();
        assert_eq!(range.min, Number::Integer(i64::MIN.into()));
        assert_eq!(range.max, Number::Integer(i64::MAX.into()));
        let tensor = Tensor::from_values(&[1], &[u64::MAX]).unwrap();
        let range = of(&tensor).range.unwrap();
        assert_eq!(range.max, Number::Integer(u64::MAX.into()));

        let tensor = Tensor::new(DType::Int4, &[2], vec![0xf, 3]).unwrap();
        let range = of(&tensor).range.unwrap();
        assert_eq!(
            (range.min, range.max),
            (Number::Integer(-1), Number::Integer(3))
        );
        let tensor = Tensor::new(DType::QInt16, &[1], vec![0xff, 0xff]).unwrap();
        assert_eq!(of(&tensor).range.unwrap().min, Number::Integer(-1));

        let tensor =
            Tensor::from_values(&[2], &[[1.0_f32, f32::NAN], [f32::INFINITY, 0.0]]).unwrap();
        let found = of(&tensor);
        assert_eq!((found.range, found.nan, found.infinite), (None, 1, 1));
    }
}
