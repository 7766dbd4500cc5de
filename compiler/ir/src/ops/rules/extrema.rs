//! Maximum and minimum: NaN-propagating comparison, finite limits of element types, and the VJP with ties.

use half::{bf16, f16};

use crate::autodiff::Backward;
use crate::build::Value;
use crate::ops::rules::along::broadcast_along;
use crate::types::DType;

/// The larger of two; NaN is propagated.
pub(in crate::ops) fn nan_max(a: f64, b: f64) -> f64 {
    if a.is_nan() || a > b { a } else { b }
}

/// The smaller of two; NaN is propagated.
pub(in crate::ops) fn nan_min(a: f64, b: f64) -> f64 {
    if a.is_nan() || a < b { a } else { b }
}

/// The largest finite number of a float type; the smallest is its negative.
pub(in crate::ops) fn max_finite(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => f16::MAX.to_f64(),
        DType::Bf16 => bf16::MAX.to_f64(),
        DType::F32 => f32::MAX.into(),
        DType::F64 => f64::MAX,
        DType::I8
        | DType::I16
        | DType::I32
        | DType::I64
        | DType::U8
        | DType::Bool
        | DType::String => panic!("{dtype} is no float"),
    }
}

/// The VJP of a maximum or minimum over `axes`: dx = dy / (number of ties) where x equals y, else 0.
pub(in crate::ops) fn extremum_vjp<'g>(g: &Backward<'g>) -> Value<'g> {
    let (x, axes) = (g.x(0), g.sizes("axes"));
    let broadcast = |y: Value<'g>| broadcast_along(y, axes, &x.shape());
    let ties = x.equal(broadcast(g.y())).cast(x.dtype());
    ties / broadcast(ties.sum(axes)) * broadcast(g.dy())
}
