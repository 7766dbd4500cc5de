//! Cumulative products and products of the others, division-free and so exact where an element is 0.

use crate::build::{Loop, Value};

/// The cumulative product along an axis, as a scan; `exclusive` leaves out the element itself.
pub(in crate::ops) fn cumulative_product<'g>(
    x: Value<'g>,
    axis: usize,
    exclusive: bool,
    reverse: bool,
) -> Value<'g> {
    let over = x.move_axis(axis, 0);
    let shape = over.shape();
    let one = x.builder().full(&over.ty().with_shape(&shape[1..]), 1.0);
    let scan = Loop {
        length: shape[0],
        reverse,
        captures: Vec::new(),
        starts: vec![one],
        over: vec![over],
    };
    let (_, products) = x.builder().scan(scan, |round| {
        let before = round.carries[0];
        let after = before * round.elements[0];
        (vec![after], vec![if exclusive { before } else { after }])
    });
    products[0].move_axis(0, axis)
}

/// For each element the product of all others over the axes: exclusive prefix product times exclusive suffix product.
pub(in crate::ops) fn product_of_others<'g>(x: Value<'g>, axes: &[usize]) -> Value<'g> {
    let shape = x.shape();
    let remaining = (0..shape.len()).filter(|i| !axes.contains(i));
    let order: Vec<usize> = axes.iter().copied().chain(remaining).collect();
    let moved: Vec<usize> = order.iter().map(|i| shape[*i]).collect();
    let mut flat = moved[axes.len()..].to_vec();
    flat.insert(0, moved[..axes.len()].iter().product());
    let lane = x.transpose(&order).reshape(&flat);
    let others = cumulative_product(lane, 0, true, false) * cumulative_product(lane, 0, true, true);
    let mut inverse = vec![0; order.len()];
    for (to, from) in order.iter().enumerate() {
        inverse[*from] = to;
    }
    others.reshape(&moved).transpose(&inverse)
}
