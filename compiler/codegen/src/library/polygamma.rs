//! The polygamma function: derivatives of the digamma function.

use trainspec_ir::interp::EvalError;
use trainspec_ir::ops::polygamma as polygamma_of;

use super::Routine;
use super::elements::{Elem, floats};
use super::elementwise::map1;

/// ψ⁽ⁿ⁾ of each element, as the primitive defines it.
pub(super) fn polygamma(r: &mut Routine<'_>) -> Result<(), EvalError> {
    r.check();
    let order = r.size("order");
    floats!(r.types[0].dtype, T => map1(r, |x: T| T::rounded(polygamma_of(order, x.to_f64()))));
    Ok(())
}
