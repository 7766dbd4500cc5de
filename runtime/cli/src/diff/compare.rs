//! Elementwise comparison of two tensors of one type and shape, with absolute and relative tolerance.

use trainspec_formats::checkpoint::{DType, Elements, Tensor};

use crate::tensors::{Number, number};

/// The tolerance: elements are equal if `|a - b| <= absolute + relative * |b|`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tolerance {
    pub(super) relative: f64,
    pub(super) absolute: f64,
}

/// The difference of two tensors.
#[derive(Debug, PartialEq)]
pub(super) enum Difference {
    Numbers {
        /// The number of elements that are not equal.
        count: usize,
        /// The largest `|a - b|` of them.
        absolute: Extreme,
        /// The largest `|a - b| / |b|` of them.
        relative: Extreme,
    },
    Strings {
        count: usize,
        first: usize,
    },
}

/// The largest difference, and the element that has it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Extreme {
    pub(super) value: f64,
    pub(super) at: usize,
}

/// The bytes compared at once; a multiple of every element size.
const BLOCK_BYTES: usize = 4096;

/// The difference; `None` if they are equal.
pub(super) fn tensors(a: &Tensor, b: &Tensor, allowed: Tolerance) -> Option<Difference> {
    let dtype = a.dtype();
    match (a.elements(), b.elements()) {
        (Elements::Bytes(a), Elements::Bytes(b)) => numbers(dtype, a, b, allowed),
        (Elements::Strings(a), Elements::Strings(b)) => {
            let unequal = |(i, (a, b))| (a != b).then_some(i);
            let mut indices = a.iter().zip(b).enumerate().filter_map(unequal);
            let first = indices.next()?;
            Some(Difference::Strings {
                count: 1 + indices.count(),
                first,
            })
        }
        _ => unreachable!("a type has numbers or strings"),
    }
}

fn numbers(dtype: DType, a: &[u8], b: &[u8], allowed: Tolerance) -> Option<Difference> {
    let size = dtype.size().unwrap_or(1);
    let mut count = 0;
    let mut worst: Option<(Extreme, Extreme)> = None;
    for (block, (a, b)) in a.chunks(BLOCK_BYTES).zip(b.chunks(BLOCK_BYTES)).enumerate() {
        // Equal bits are equal values, NaN included.
        if a == b {
            continue;
        }
        let pairs = a.chunks_exact(size).zip(b.chunks_exact(size));
        for (i, (a, b)) in pairs.enumerate().filter(|(_, (a, b))| a != b) {
            let (apart, size_of_b) = distance(number(dtype, a), number(dtype, b));
            if apart == 0.0 || apart <= allowed.absolute + allowed.relative * size_of_b {
                continue;
            }
            let at = block * (BLOCK_BYTES / size) + i;
            let relative = match apart.is_infinite() {
                true => f64::INFINITY,
                false => apart / size_of_b,
            };
            let (absolute, relative) = (
                Extreme { value: apart, at },
                Extreme {
                    value: relative,
                    at,
                },
            );
            count += 1;
            worst = Some(match worst {
                None => (absolute, relative),
                Some(worst) => (larger(worst.0, absolute), larger(worst.1, relative)),
            });
        }
    }
    worst.map(|(absolute, relative)| Difference::Numbers {
        count,
        absolute,
        relative,
    })
}

/// The distance of two numbers, and the magnitude of the second. No tolerance allows for an infinite distance, so the magnitude is zero then.
fn distance(a: Number, b: Number) -> (f64, f64) {
    let real = |a: f64, b: f64| match (a.is_nan(), b.is_nan()) {
        (true, true) => 0.0,
        (true, false) | (false, true) => f64::INFINITY,
        // Infinity minus itself is NaN.
        (false, false) if a == b => 0.0,
        (false, false) => (a - b).abs(),
    };
    let (apart, size) = match (a, b) {
        (Number::Integer(a), Number::Integer(b)) => ((a - b).abs() as f64, b.abs() as f64),
        (Number::Real(a), Number::Real(b)) => (real(a, b), b.abs()),
        (Number::Complex(a, b), Number::Complex(c, d)) => {
            (real(a, c).hypot(real(b, d)), c.hypot(d))
        }
        _ => unreachable!("a type has one kind of number"),
    };
    match apart.is_infinite() || size.is_nan() {
        true => (apart, 0.0),
        false => (apart, size),
    }
}

/// The larger difference, the first among equals.
fn larger(known: Extreme, new: Extreme) -> Extreme {
    match new.value > known.value {
        true => new,
        false => known,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXACT: Tolerance = Tolerance {
        relative: 0.0,
        absolute: 0.0,
    };

    fn compared(a: &[f32], b: &[f32], allowed: Tolerance) -> Option<Difference> {
        let tensor = |values: &[f32]| Tensor::from_values(&[values.len()], values).unwrap();
        tensors(&tensor(a), &tensor(b), allowed)
    }

    #[test]
    fn zeros_of_both_signs_and_nans_of_any_bits_are_equal() {
        let odd = f32::from_bits(0x7fc0_1234);
        let (a, b) = ([0.0, f32::NAN, f32::INFINITY], [-0.0, odd, f32::INFINITY]);
        assert_eq!(compared(&a, &b, EXACT), None);
    }

    #[test]
    fn the_largest_differences_have_their_indices() {
        let found = compared(&[1.0, 100.0, 0.5], &[1.5, 101.0, 0.125], EXACT);
        let expected = Difference::Numbers {
            count: 3,
            absolute: Extreme { value: 1.0, at: 1 },
            relative: Extreme { value: 3.0, at: 2 },
        };
        assert_eq!(found, Some(expected));
    }

    #[test]
    fn no_tolerance_allows_for_nan_or_infinity() {
        let wide = Tolerance {
            relative: 1e9,
            absolute: 1e9,
        };
        for (a, b) in [
            (f32::NAN, 1.0),
            (1.0, f32::NAN),
            (f32::INFINITY, 1.0),
            (1.0, f32::INFINITY),
            (f32::INFINITY, f32::NEG_INFINITY),
        ] {
            assert!(compared(&[a], &[b], wide).is_some(), "{a} {b}");
        }
        assert_eq!(compared(&[1.0], &[2.0], wide), None);
    }

    #[test]
    fn integers_are_compared_exactly() {
        let tensor = |n: i64| Tensor::scalar(n);
        let found = tensors(&tensor(i64::MAX), &tensor(i64::MAX - 1), EXACT);
        assert!(
            matches!(found, Some(Difference::Numbers { count: 1, absolute, .. }) if absolute.value == 1.0)
        );
        let ends = tensors(&tensor(i64::MIN), &tensor(i64::MAX), EXACT);
        assert!(ends.is_some());
    }

    #[test]
    fn indices_count_over_blocks() {
        let mut b = vec![0_u8; 3 * BLOCK_BYTES];
        let a = Tensor::from_values(&[b.len()], &b).unwrap();
        b[2 * BLOCK_BYTES + 5] = 1;
        let b = Tensor::from_values(&[b.len()], &b).unwrap();
        let Some(Difference::Numbers { absolute, .. }) = tensors(&a, &b, EXACT) else {
            panic!("they differ");
        };
        assert_eq!(absolute.at, 2 * BLOCK_BYTES + 5);
    }
}
