//! Draws from the normal distribution.

use crate::build::{Lowering, Value};
use crate::graph::Type;
use crate::ops::rules::along::wide;

/// Numbers between -1 and 1, all equally likely, of the shape that a call asks for: 2u - 1, which is exact.
///
/// They are at least f32: narrow floats have too few digits for the tails.
pub(in crate::ops) fn drawn<'g>(l: &Lowering<'g, '_>) -> Value<'g> {
    let ty = Type::new(wide(l.results[0].dtype), &l.shape(0));
    l.b.random_uniform(l.b.key(l.call.site), &ty) * 2.0 - 1.0
}

/// `mean` + `stddev` · z.
pub(in crate::ops) fn deviate<'g>(l: &Lowering<'g, '_>, z: Value<'g>) -> Value<'g> {
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
