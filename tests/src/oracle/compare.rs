//! Comparison of a tensor with the expected one, within a tolerance.

use trainspec_ir::Tensor;
use trainspec_ir::tensor::Data;

use crate::oracle::fields::Fields;
use crate::oracle::tensors::number;

/// How far a float may be from the expected one: `absolute + relative * |expected|`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tolerance {
    /// The part that grows with the number.
    pub relative: f64,
    /// The part that does not.
    pub absolute: f64,
}

impl Tolerance {
    /// What holds for a computation in f32.
    pub const SINGLE: Tolerance = Tolerance {
        relative: 2e-5,
        absolute: 2e-6,
    };

    /// What a constant that was rounded to f32 leaves of a computation in f64.
    pub const ROUNDED_CONSTANT: Tolerance = Tolerance {
        relative: 1e-6,
        absolute: 1e-7,
    };

    /// `rtol` and `atol` of a case; none is exact.
    pub fn of(fields: &Fields<'_>) -> Result<Tolerance, String> {
        let part = |name| fields.get(name).map_or(Ok(0.0), number);
        Ok(Tolerance {
            relative: part("rtol")?,
            absolute: part("atol")?,
        })
    }

    /// The wider of two.
    pub fn or(self, other: Tolerance) -> Tolerance {
        Tolerance {
            relative: self.relative.max(other.relative),
            absolute: self.absolute.max(other.absolute),
        }
    }

    /// NaN is met by NaN, an infinity by the same.
    fn allows(self, expected: f64, found: f64) -> bool {
        if expected.is_nan() {
            return found.is_nan();
        }
        expected == found
            || (expected.is_finite()
                && (found - expected).abs() <= self.absolute + self.relative * expected.abs())
    }
}

/// Says where two tensors first differ; floats may by the tolerance, their types may not.
pub fn same(expected: &Tensor, found: &Tensor, tolerance: Tolerance) -> Result<(), String> {
    if expected.dtype() != found.dtype() {
        return Err(format!("is {}, expected {}", found.ty(), expected.ty()));
    }
    close(expected, found, tolerance)
}

/// Says where two tensors first differ, whose float types may differ.
pub fn close(expected: &Tensor, found: &Tensor, tolerance: Tolerance) -> Result<(), String> {
    if expected.shape() != found.shape() {
        return Err(format!("is {}, expected {}", found.ty(), expected.ty()));
    }
    let differs = |i: usize| match (expected.data(), found.data()) {
        (Data::String(e), Data::String(f)) => e[i] != f[i],
        (Data::I64(e), Data::I64(f)) => e[i] != f[i],
        _ => false,
    };
    let is_string = |t: &Tensor| matches!(t.data(), Data::String(_));
    let numbers = (!is_string(expected) && !is_string(found)).then(|| {
        let exact = !expected.dtype().is_float() || !found.dtype().is_float();
        (expected.to_f64s(), found.to_f64s(), exact)
    });
    let wrong = |i: &usize| match &numbers {
        Some((e, f, true)) => e[*i] != f[*i] || differs(*i),
        Some((e, f, false)) => !tolerance.allows(e[*i], f[*i]),
        None => differs(*i),
    };
    let wrong: Vec<usize> = (0..expected.data().len()).filter(wrong).collect();
    let Some(first) = wrong.first() else {
        return Ok(());
    };
    Err(format!(
        "{} of {} differ, first {:?}: expected {}, got {}",
        wrong.len(),
        expected.data().len(),
        index(expected.shape(), *first),
        expected.element_text(*first),
        found.element_text(*first)
    ))
}

/// The multi-dimensional index of an element.
fn index(shape: &[usize], mut flat: usize) -> Vec<usize> {
    let mut index: Vec<usize> = shape
        .iter()
        .rev()
        .map(|n| {
            let i = flat % n;
            flat /= n;
            i
        })
        .collect();
    index.reverse();
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oracle_tolerance_is_for_finite_floats() {
        let tolerance = Tolerance {
            relative: 0.1,
            absolute: 0.5,
        };
        let of = |values: &[f64]| Tensor::new(&[values.len()], values.to_vec());
        let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 10.0];
        assert!(same(&of(&special), &of(&special), tolerance).is_ok());
        assert!(same(&of(&[10.0]), &of(&[11.5]), tolerance).is_ok());
        for (expected, found) in [
            (10.0, 11.6),
            (10.0, f64::NAN),
            (f64::NAN, 10.0),
            (f64::INFINITY, f64::NEG_INFINITY),
            (f64::INFINITY, 1e300),
            (10.0, f64::INFINITY),
        ] {
            assert!(same(&of(&[expected]), &of(&[found]), tolerance).is_err());
        }
        let integer = |n: i64| Tensor::new(&[1], vec![n]);
        let large = 1 << 60;
        assert!(same(&integer(large), &integer(large), tolerance).is_ok());
        assert!(same(&integer(large), &integer(large + 1), tolerance).is_err());
        assert!(same(&of(&[1.0]), &integer(1), tolerance).is_err());
    }
}
