//! Concatenation of slice gradients: a sum of zero-padded tensors that tile one dimension becomes one `concat`.

use crate::build::{Builder, Value};
use crate::graph::Attr;
use crate::ops::prims;

/// The sum of gradients that are each a slice padded with zeros along one dimension, where the slices tile the dimension: their
/// concatenation. Such sums are the gradients of splits. `None` for all other sums.
pub(super) fn concatenated<'g>(b: &'g Builder, gradients: &[Value<'g>]) -> Option<Value<'g>> {
    let mut slices = gradients
        .iter()
        .map(|gradient| PaddedSlice::of(b, *gradient))
        .collect::<Option<Vec<PaddedSlice<'g>>>>()?;
    slices.sort_by_key(|slice| slice.offset);
    let axis = slices.first()?.axis;
    let mut end = 0;
    for slice in &slices {
        if slice.axis != axis || slice.offset != end {
            return None;
        }
        end += slice.value.shape()[axis];
    }
    if end != gradients[0].shape()[axis] {
        return None;
    }
    let values: Vec<Value<'g>> = slices.iter().map(|slice| slice.value).collect();
    Some(b.concat(&values, axis))
}

/// A tensor with zeros before and after it along one dimension.
struct PaddedSlice<'g> {
    value: Value<'g>,
    axis: usize,
    offset: usize,
}

impl<'g> PaddedSlice<'g> {
    fn of(b: &'g Builder, gradient: Value<'g>) -> Option<PaddedSlice<'g>> {
        let (operands, attrs) = b.defined_by(gradient, &prims::PAD)?;
        let [Attr::Sizes(low), Attr::Sizes(high), Attr::Sizes(interior)] = &attrs[..] else {
            return None;
        };
        let grows = |i: &usize| low[*i] + high[*i] > 0;
        let mut axes = (0..low.len()).filter(grows);
        let (axis, other) = (axes.next()?, axes.next());
        let plain = other.is_none() && interior.iter().all(|n| *n == 0);
        let zero = b.splat(operands[1]) == Some(0.0);
        (plain && zero).then(|| PaddedSlice {
            value: operands[0],
            axis,
            offset: low[axis],
        })
    }
}
