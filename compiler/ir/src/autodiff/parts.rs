//! Gradients of parts that make up a whole.

use crate::build::{Builder, Value};
use crate::graph::Attr;
use crate::ops::prims;

/// The sum of gradients, each zero but for a part along one dimension, where the parts lie side by side and leave nothing out: they are put
/// one after another. So it is for what was split.
pub(super) fn joined<'g>(b: &'g Builder, gradients: &[Value<'g>]) -> Option<Value<'g>> {
    let mut parts = gradients
        .iter()
        .map(|gradient| Part::of(b, *gradient))
        .collect::<Option<Vec<Part<'g>>>>()?;
    parts.sort_by_key(|part| part.before);
    let axis = parts.first()?.axis;
    let mut end = 0;
    for part in &parts {
        if part.axis != axis || part.before != end {
            return None;
        }
        end += part.value.shape()[axis];
    }
    if end != gradients[0].shape()[axis] {
        return None;
    }
    let values: Vec<Value<'g>> = parts.iter().map(|part| part.value).collect();
    Some(b.concat(&values, axis))
}

/// A tensor with zeros before and behind it along one dimension.
struct Part<'g> {
    value: Value<'g>,
    axis: usize,
    before: usize,
}

impl<'g> Part<'g> {
    fn of(b: &'g Builder, gradient: Value<'g>) -> Option<Part<'g>> {
        let (operands, attrs) = b.made_by(gradient, &prims::PAD)?;
        let [
            Attr::Sizes(before),
            Attr::Sizes(behind),
            Attr::Sizes(between),
        ] = &attrs[..]
        else {
            return None;
        };
        let grows = |i: &usize| before[*i] + behind[*i] > 0;
        let mut axes = (0..before.len()).filter(grows);
        let (axis, other) = (axes.next()?, axes.next());
        let plain = other.is_none() && between.iter().all(|n| *n == 0);
        let zero = b.splat(operands[1]) == Some(0.0);
        (plain && zero).then(|| Part {
            value: operands[0],
            axis,
            before: before[axis],
        })
    }
}
