//! Normal distribution by inverse transform sampling (`erfinv` of uniform samples).

use crate::build::{Lowering, Value};
use crate::graph::Type;
use crate::ops::rules::along::accumulator_dtype;

/// Samples uniform in (-1, 1) of the shape that a call requests: 2u - 1, which is exact.
///
/// They are at least f32: f16 and bf16 have too few digits for the tails.
pub(in crate::ops) fn symmetric_uniform<'g>(l: &Lowering<'g, '_>) -> Value<'g> {
    let ty = Type::new(accumulator_dtype(l.results[0].dtype), &l.shape(0));
    l.b.random_uniform(l.b.key(l.call.site), &ty) * 2.0 - 1.0
}

/// `mean` + `stddev` · z.
pub(in crate::ops) fn scale_and_shift<'g>(l: &Lowering<'g, '_>, z: Value<'g>) -> Value<'g> {
    let z = z.cast(l.results[0].dtype);
    let scaled = match l.value_opt("stddev") {
        Some(stddev) => stddev * z,
        None => z,
    };
    match l.value_opt("mean") {
        Some(mean) => mean + scaled,
        None => scaled,
    }
}
