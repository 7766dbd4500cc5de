//! The smallest, the mean and the largest of a tensor's elements.

use trainspec_formats::FormatError;
use trainspec_formats::checkpoint::{DType, Element, Tensor};

use crate::tensors::{Number, number};

/// What the elements of a tensor are, taken together. Those that are no number are counted and left out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Statistics {
    /// Nothing for complex numbers, which have no order.
    pub(crate) range: Option<Range>,
    pub(crate) nan: u64,
    pub(crate) infinite: u64,
}

/// Where the elements of a tensor lie.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Range {
    pub(crate) min: Number,
    pub(crate) mean: f64,
    pub(crate) max: Number,
}

impl Statistics {
    /// Those of a tensor; nothing for strings and for no elements.
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
            // Types of few bytes, by what each byte or pair of bytes means.
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
        Ok(found.map(|found| match is_whole(tensor) {
            true => found.whole(),
            false => found,
        }))
    }

    /// The same, with bounds that are whole.
    fn whole(mut self) -> Statistics {
        if let Some(range) = &mut self.range {
            range.min = Number::Whole(real(range.min) as i128);
            range.max = Number::Whole(real(range.max) as i128);
        }
        self
    }

    /// Of complex numbers it is counted how many have a part that is no number, or an infinite one.
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

/// Numbers that a `f64` cannot all hold keep their bounds as they are.
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
        range.min = Number::Whole((*min).into());
        range.max = Number::Whole((*max).into());
    }
    Ok(found)
}

/// A number that is not complex, as near as a `f64` comes.
pub(crate) fn real(number: Number) -> f64 {
    match number {
        Number::Whole(n) => n as f64,
        Number::Real(x) => x,
        Number::Complex(..) => f64::NAN,
    }
}

/// Whether elements are integers or truths.
fn is_whole(tensor: &Tensor) -> bool {
    let size = tensor.dtype().size().unwrap_or(0);
    let first = tensor.bytes().get(..size).filter(|_| size > 0);
    first.is_some_and(|first| matches!(number(tensor.dtype(), first), Number::Whole(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_is_counted_and_left_out() {
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
        assert_eq!(range.min, Number::Whole(i64::MIN.into()));
        assert_eq!(range.max, Number::Whole(i64::MAX.into()));
        let tensor = Tensor::from_values(&[1], &[u64::MAX]).unwrap();
        let range = of(&tensor).range.unwrap();
        assert_eq!(range.max, Number::Whole(u64::MAX.into()));

        let tensor = Tensor::new(DType::Int4, &[2], vec![0xf, 3]).unwrap();
        let range = of(&tensor).range.unwrap();
        assert_eq!(
            (range.min, range.max),
            (Number::Whole(-1), Number::Whole(3))
        );
        let tensor = Tensor::new(DType::QInt16, &[1], vec![0xff, 0xff]).unwrap();
        assert_eq!(of(&tensor).range.unwrap().min, Number::Whole(-1));

        let tensor =
            Tensor::from_values(&[2], &[[1.0_f32, f32::NAN], [f32::INFINITY, 0.0]]).unwrap();
        let found = of(&tensor);
        assert_eq!((found.range, found.nan, found.infinite), (None, 1, 1));
    }
}
