//! The largest and the smallest: which of two, the ends of element types, and who gets the gradient.

use half::{bf16, f16};

use crate::autodiff::Backward;
use crate::build::Value;
use crate::ops::rules::along::spread;
use crate::types::DType;

/// The larger of two; NaN where one is NaN.
pub(in crate::ops) fn pick_max(a: f64, b: f64) -> f64 {
    if a.is_nan() || a > b { a } else { b }
}

/// The smaller of two; NaN where one is NaN.
pub(in crate::ops) fn pick_min(a: f64, b: f64) -> f64 {
    if a.is_nan() || a < b { a } else { b }
}

/// The largest finite number of a float type; the smallest is its negative.
pub(in crate::ops) fn highest(dtype: DType) -> f64 {
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

/// What flows back from an extreme over `axes`: those that are equal to it share it evenly.
pub(in crate::ops) fn of_ties<'g>(g: &Backward<'g>) -> Value<'g> {
    let (x, axes) = (g.x(0), g.sizes("axes"));
    let whole = |y: Value<'g>| spread(y, axes, &x.shape());
    let chosen = x.equal(whole(g.y())).cast(x.dtype());
    chosen / whole(chosen.sum(axes)) * whole(g.dy())
}
