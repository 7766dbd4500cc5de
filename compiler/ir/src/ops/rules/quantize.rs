//! Fake quantization: nudged range, affine quantize-dequantize, and its straight-through gradient.

use crate::build::{Lowering, Value};
use crate::ops::op::RuleError;
use crate::ops::rules::along::accumulator_dtype;
use crate::ops::rules::contract::zero_past_counts;

/// How values are scaled to quantized ones: TensorFlow's three kernels differ in the last digit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::ops) enum Scaling {
    /// Divides by the scale (the quantization step).
    Divide,
    /// Multiplies by the inverse scale.
    Multiply,
}

/// `inputs` quantized and dequantized between `min` and `max`, as TensorFlow does it.
///
/// The bounds are nudged, so that 0 is representable: to (quant_min - z) s and (quant_max - z) s, where quant_min is 0, or 1
/// in a narrow range, quant_max is 2ᵇ - 1, the scale s is (max - min) / (quant_max - quant_min), and the zero point z is
/// quant_min - min / s rounded and clamped to quant_min..=quant_max. The gradient is straight-through: dy goes to `inputs`
/// between the nudged bounds, to `min` below them and to `max` above. Where both bounds are 0 so is the result, and dy goes
/// to `inputs`.
pub(in crate::ops) fn quantized<'g>(
    l: &Lowering<'g, '_>,
    min: Value<'g>,
    max: Value<'g>,
    scaling: Scaling,
) -> Result<Vec<Value<'g>>, RuleError> {
    // f16 and bf16 cannot represent 2¹⁶ distinct values.
    let dtype = l.value("inputs").dtype();
    let [x, min, max] = [l.value("inputs"), min, max].map(|v| v.cast(accumulator_dtype(dtype)));
    let quant_min = if l.call.bool("narrow_range") {
        1.0
    } else {
        0.0
    };
    let quant_max = ((1_i64 << l.call.int("num_bits")?) - 1) as f64;
    let zero = x.like(0.0);

    let scale = (max - min) / (quant_max - quant_min);
    let inverse_scale = (quant_max - quant_min) / (max - min);
    let zero_point = quant_min - min / scale;
    let rounded = round_half_up(zero_point);
    let zero_point = zero_point
        .less(zero_point.like(quant_min))
        .select(zero_point.like(quant_min), rounded);
    let zero_point = zero_point
        .greater(zero_point.like(quant_max))
        .select(zero_point.like(quant_max), zero_point);
    let (nudged_min, nudged_max) = (
        (quant_min - zero_point) * scale,
        (quant_max - zero_point) * scale,
    );
    let quantized_zero = (-nudged_min * inverse_scale + 0.5).floor();
    let shifted = x.minimum(nudged_max).maximum(nudged_min) - nudged_min;
    let scaled = match scaling {
        Scaling::Divide => shifted / scale,
        Scaling::Multiply => shifted * inverse_scale,
    };
    let dequantized = (scaled - quantized_zero + 0.5).floor() * scale;

    let degenerate = min.equal(zero).logical_and(max.equal(zero));
    let dequantized = degenerate.select(zero, dequantized);
    let clamped = x.greater(nudged_max).select(max, x);
    let clamped = x.less(nudged_min).select(min, clamped);
    let surrogate = degenerate.select(x, clamped);
    // The gradients of the bounds are sums over all elements, so elements past a count are zeroed.
    let dequantized = dequantized.straight_through(surrogate).cast(dtype);
    Ok(vec![zero_past_counts(l, dequantized, &l.results[0])])
}

/// The nearest integer, ties upward.
fn round_half_up(x: Value<'_>) -> Value<'_> {
    let below = x.floor();
    let rounds_up = (x - below).greater_equal(x.like(0.5));
    rounds_up.select(below + 1.0, below)
}
