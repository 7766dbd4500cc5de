//! Casts between element types.

use trainspec_ir::DType;
use trainspec_ir::interp::EvalError;

use super::Routine;
use super::elements::{Elem, any};
use super::elementwise::map1;

/// Float to integer truncates towards zero and saturates; NaN becomes 0. Integer to integer wraps. A number is true unless it is 0.
pub(super) fn cast(r: &mut Routine<'_>) -> Result<(), EvalError> {
    r.check();
    any!(r.types[0].dtype, T => from::<T>(r));
    Ok(())
}

fn from<T: Elem>(r: &mut Routine<'_>) {
    any!(r.results[0].dtype, U => map1(r, convert::<T, U>))
}

#[inline(always)]
fn convert<T: Elem, U: Elem>(x: T) -> U {
    match (T::DTYPE.is_float(), U::DTYPE.is_float()) {
        (true, true) => U::rounded(x.to_f64()),
        (true, false) => match U::DTYPE.int_range() {
            Some((min, max)) => U::from_i64((x.to_f64() as i64).clamp(min, max)),
            None => U::from_i64(i64::from(x.to_f64() != 0.0)),
        },
        (false, true) => match U::DTYPE {
            DType::F64 => U::rounded(x.to_i64() as f64),
            // Directly to f32: by way of f64 it would round twice.
            _ => U::rounded(f64::from(x.to_i64() as f32)),
        },
        (false, false) => U::from_i64(x.to_i64()),
    }
}
