//! Rounding to few levels between bounds, and what flows back through it.

use crate::build::{Lowering, Value};
use crate::ops::op::RuleError;
use crate::ops::rules::along::wide;
use crate::ops::rules::contract::zeroed;

/// How a number of levels becomes a level: TensorFlow's three kernels differ in the last digit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::ops) enum Scaling {
    /// Divides by the distance of two levels.
    Divide,
    /// Multiplies by the number of levels in 1.
    Multiply,
}

/// `inputs` rounded to the levels between `min` and `max`, as TensorFlow does it.
///
/// The bounds are moved a little, so that 0 is a level: to (low - z) s and (high - z) s, where low is 0, or 1 in a narrow
/// range, high is 2ᵇ - 1, s is (max - min) / (high - low), and z is low - min / s rounded and kept in low..=high. Gradients
/// flow to `inputs` between the moved bounds, to `min` below them and to `max` above. Where both bounds are 0 so is the
/// result, and gradients flow to `inputs`.
pub(in crate::ops) fn quantized<'g>(
    l: &Lowering<'g, '_>,
    min: Value<'g>,
    max: Value<'g>,
    scaling: Scaling,
) -> Result<Vec<Value<'g>>, RuleError> {
    // Narrow floats could not tell 2¹⁶ levels apart.
    let dtype = l.value("inputs").dtype();
    let [x, min, max] = [l.value("inputs"), min, max].map(|v| v.cast(wide(dtype)));
    let low = if l.call.bool("narrow_range") {
        1.0
    } else {
        0.0
    };
    let high = ((1_i64 << l.call.int("num_bits")?) - 1) as f64;
    let zero = x.like(0.0);

    let scale = (max - min) / (high - low);
    let inverse = (high - low) / (max - min);
    let point = low - min / scale;
    let nearest = half_up(point);
    let point = point.less(point.like(low)).select(point.like(low), nearest);
    let point = point
        .greater(point.like(high))
        .select(point.like(high), point);
    let (least, greatest) = ((low - point) * scale, (high - point) * scale);
    let at_zero = (-least * inverse + 0.5).floor();
    let shifted = x.minimum(greatest).maximum(least) - least;
    let place = match scaling {
        Scaling::Divide => shifted / scale,
        Scaling::Multiply => shifted * inverse,
    };
    let level = (place - at_zero + 0.5).floor() * scale;

    let nothing = min.equal(zero).logical_and(max.equal(zero));
    let level = nothing.select(zero, level);
    let inside = x.greater(greatest).select(max, x);
    let inside = x.less(least).select(min, inside);
    let surrogate = nothing.select(x, inside);
    // The bounds are given what flows back from all elements, so what is behind a count must not be among them.
    let level = level.straight_through(surrogate).cast(dtype);
    Ok(vec![zeroed(l, level, &l.results[0])])
}

/// The nearest whole number, halves to the larger one.
fn half_up(x: Value<'_>) -> Value<'_> {
    let below = x.floor();
    let half = (x - below).greater_equal(x.like(0.5));
    half.select(below + 1.0, below)
}
